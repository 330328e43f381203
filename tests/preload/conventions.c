// SPDX-License-Identifier: MIT OR Apache-2.0
// An ordinary verbs program, linked with the installed libibverbs, that does not know Verbatim. It
// checks that the device follows the manual pages about results and errno.
#include <endian.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"

#define SIZE 8192
static struct ibv_context* context;
static struct ibv_pd* domain;
static struct ibv_cq* queue;
static struct ibv_mr* region;
static uint8_t* memory;
static bool ethernet;

static void check_devices(const char* name) {
  int count = -1;
  struct ibv_device** list = ibv_get_device_list(&count);
  REQUIRE("get_device_list", list != NULL && count > 0 && list[count] == NULL);
  struct ibv_device* device = NULL;
  for (int i = 0; i < count; ++i)
    if (strcmp(ibv_get_device_name(list[i]), name) == 0) device = list[i];
  REQUIRE("get_device_name", device != NULL);
  CHECK("node type", device->node_type == IBV_NODE_CA);
  CHECK("get_device_guid", ibv_get_device_guid(device) != 0);
  CHECK("get_device_index", ibv_get_device_index(device) == -1);
  context = ibv_open_device(device);
  REQUIRE("open_device", context != NULL && context->device == device);
  ibv_free_device_list(list);
  struct ibv_device** again = ibv_get_device_list(NULL);
  CHECK("get_device_list without count", again != NULL && again[0] != NULL);
  free(again);  // As qperf does, which works with the real library.
  again = ibv_get_device_list(NULL);
  CHECK("get_device_list after free", again != NULL && again[0] != NULL);
  ibv_free_device_list(again);
  const int commands = dup(context->cmd_fd);
  CHECK("command descriptor", commands >= 0);
  CHECK_NULL("import_device", ibv_import_device(commands), EOPNOTSUPP);
  close(commands);
}

// Some programs keep only the first devices of a list.
static void check_short_lists(void) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("VERBATIM_SOFT_DEVICES", "3", 1);
    int count = 1;
    for (int kept = 0; kept < count; ++kept) {
      struct ibv_device** const list = ibv_get_device_list(&count);
      if (list == NULL || count < 3) _exit(1);
      list[kept] = NULL;
      ibv_free_device_list(list);
    }
    _exit(0);
  }
  int status = -1;
  CHECK("free_device_list of a shortened list", waitpid(child, &status, 0) == child && status == 0);
}

static void check_paths(void) {
  char path[512], text[64];
  struct stat info;
  snprintf(path, sizeof path, "/dev/infiniband/%s", context->device->dev_name);
  CHECK("node in /dev", stat(path, &info) == 0 && S_ISCHR(info.st_mode));
  CHECK("node in /dev may be used", access(path, R_OK | W_OK) == 0);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  CHECK("node in /dev opens", fd >= 0);
  close(fd);
  snprintf(path, sizeof path, "%s/ports/1/state", context->device->ibdev_path);
  FILE* file = fopen(path, "r");
  CHECK("port state in sysfs",
        file != NULL && fgets(text, sizeof text, file) != NULL && strcmp(text, "4: ACTIVE\n") == 0);
  if (file != NULL) fclose(file);
  CHECK_MINUS("sysfs is read-only", open(path, O_WRONLY), EACCES);
  snprintf(path, sizeof path, "%s/no_such_attribute", context->device->ibdev_path);
  CHECK_MINUS("unknown attribute", open(path, O_RDONLY), ENOENT);
  CHECK_MINUS("unknown device", access("/sys/class/infiniband/soft77", F_OK), ENOENT);
  CHECK("device in sysfs", stat(context->device->ibdev_path, &info) == 0 && S_ISDIR(info.st_mode));
  CHECK("other paths", access("/proc/self/status", R_OK) == 0);
}

static void check_queries(void) {
  struct ibv_device_attr plain;
  CHECK_CODE("query_device", ibv_query_device(context, &plain), 0);
  struct ibv_device_attr_ex extended;
  CHECK_CODE("query_device_ex", ibv_query_device_ex(context, NULL, &extended), 0);
  CHECK("both are alike", plain.node_guid == extended.orig_attr.node_guid &&
                              plain.max_qp == extended.orig_attr.max_qp && plain.max_qp > 0);
  struct ibv_query_device_ex_input input = {.comp_mask = 1};
  CHECK_CODE("query_device_ex of something else", ibv_query_device_ex(context, &input, &extended),
             EINVAL);
  struct ibv_port_attr port;
  CHECK_CODE("query_port", ibv_query_port(context, 1, &port), 0);
  ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  CHECK("port is active", port.state == IBV_PORT_ACTIVE);
  CHECK("lid", ethernet ? port.lid == 0 : port.lid != 0);
  CHECK_CODE("query_port of another", ibv_query_port(context, 2, &port), EINVAL);
  // A program from before the structure grew passes 48 bytes.
  uint8_t old[64];
  memset(old, 0xa5, sizeof old);
  int (*exported)(struct ibv_context*, uint8_t, struct _compat_ibv_port_attr*) = (ibv_query_port);
  CHECK_CODE("query_port, old", exported(context, 1, (struct _compat_ibv_port_attr*)old), 0);
  CHECK("query_port keeps to the old size", old[47] != 0xa5 && old[48] == 0xa5);

  union ibv_gid gid;
  CHECK_CODE("query_gid", ibv_query_gid(context, 1, 0, &gid), 0);
  CHECK("gid is not empty", gid.global.interface_id != 0);
  CHECK_MINUS("query_gid of another port", ibv_query_gid(context, 2, 0, &gid), EINVAL);
  CHECK_MINUS("query_gid beyond the table", ibv_query_gid(context, 1, 99, &gid), EINVAL);
  struct ibv_gid_entry entries[8];
  CHECK_CODE("query_gid_ex", ibv_query_gid_ex(context, 1, 0, &entries[0], 0), 0);
  CHECK("gid type",
        entries[0].gid_type == (uint32_t)(ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB));
  CHECK("query_gid_table", ibv_query_gid_table(context, entries, 8, 0) == (ethernet ? 2 : 1));
  CHECK("query_gid_table without room", ibv_query_gid_table(context, entries, 0, 0) == -EINVAL);
  __be16 key;
  CHECK("query_pkey", ibv_query_pkey(context, 1, 0, &key) == 0 && key == 0xffff);
  CHECK_MINUS("query_pkey beyond the table", ibv_query_pkey(context, 1, 1, &key), EINVAL);
  CHECK("get_pkey_index", ibv_get_pkey_index(context, 1, htobe16(0xffff)) == 0);
  CHECK("get_pkey_index of none", ibv_get_pkey_index(context, 1, htobe16(0x1234)) == -1);
  struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
  CHECK_CODE("query_rt_values_ex", ibv_query_rt_values_ex(context, &values), 0);
}

static void check_memory(void) {
  domain = ibv_alloc_pd(context);
  REQUIRE("alloc_pd", domain != NULL && domain->context == context);
  memory = aligned_alloc(4096, SIZE);
  memset(memory, 0, SIZE);
  // Volatile, because otherwise the header would choose the function.
  volatile int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
  region = ibv_reg_mr(domain, memory, SIZE, all);
  REQUIRE("reg_mr", region != NULL && region->addr == memory && region->length == SIZE);
  struct ibv_mr* plain = ibv_reg_mr(domain, memory, 64, IBV_ACCESS_LOCAL_WRITE);
  CHECK("reg_mr, plain", plain != NULL && ibv_dereg_mr(plain) == 0);
  CHECK_NULL("reg_mr: remote write needs local",
             ibv_reg_mr(domain, memory, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  CHECK_NULL("reg_mr: not mapped", ibv_reg_mr(domain, (void*)4096, 64, 0), EFAULT);
  CHECK_NULL("reg_mr: on demand", ibv_reg_mr(domain, memory, 64, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
  struct ibv_mr* moved = ibv_reg_mr_iova(domain, memory, 64, 0x10000, IBV_ACCESS_LOCAL_WRITE);
  CHECK("reg_mr_iova", moved != NULL && ibv_dereg_mr(moved) == 0);
  CHECK_NULL("reg_mr_iova: other offset in page",
             ibv_reg_mr_iova(domain, memory, 64, 0x10001, IBV_ACCESS_LOCAL_WRITE), EINVAL);
  CHECK_NULL("reg_dmabuf_mr", ibv_reg_dmabuf_mr(domain, 0, 64, 0, 0, 0), EOPNOTSUPP);
  const uint32_t key = region->rkey;
  CHECK("rereg_mr", ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                                 all & ~IBV_ACCESS_RELAXED_ORDERING) == 0 &&
                        region->rkey == key);
  CHECK_CODE("rereg_mr of something else", ibv_rereg_mr(region, 1 << 20, domain, NULL, 0, 0),
             IBV_REREG_MR_ERR_INPUT);
  CHECK_CODE("dealloc_pd in use", ibv_dealloc_pd(domain), EBUSY);
  CHECK_NULL("alloc_mw", ibv_alloc_mw(domain, IBV_MW_TYPE_1), EOPNOTSUPP);
  CHECK_NULL("import_pd", ibv_import_pd(context, 0), EOPNOTSUPP);
  CHECK_NULL("import_mr", ibv_import_mr(domain, 0), EOPNOTSUPP);
  CHECK_NULL("import_dm", ibv_import_dm(context, 0), EOPNOTSUPP);
}

static struct ibv_qp* make_pair(enum ibv_qp_type type) {
  struct ibv_qp_init_attr init = {.send_cq = queue, .recv_cq = queue, .qp_type = type};
  init.cap.max_send_wr = init.cap.max_recv_wr = 16;
  init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  init.cap.max_inline_data = 64;
  return ibv_create_qp(domain, &init);
}

static struct ibv_ah_attr path_to_self(void) {
  struct ibv_ah_attr path = {.port_num = 1, .is_global = ethernet};
  struct ibv_port_attr port;
  ibv_query_port(context, 1, &port);
  path.dlid = port.lid;
  ibv_query_gid(context, 1, 0, &path.grh.dgid);
  path.grh.hop_limit = 1;
  return path;
}

static int connect_to(struct ibv_qp* pair, uint32_t peer) {
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7};
  attributes.qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  const bool datagrams = pair->qp_type == IBV_QPT_UD;
  int failed = ibv_modify_qp(pair, &attributes,
                             IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                 (int)(datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer;
  attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 4;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr = path_to_self();
  const int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (failed == 0)
    failed = ibv_modify_qp(pair, &attributes, IBV_QP_STATE | (datagrams ? 0 : connected));
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = attributes.rnr_retry = 7;
  const int timers = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (failed == 0)
    failed =
        ibv_modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN | (datagrams ? 0 : timers));
  return failed;
}

static int connect_to_self(struct ibv_qp* pair) { return connect_to(pair, pair->qp_num); }

// A minute at most: the device's own thread may have to wait for a processor.
static struct ibv_wc wait_for_completion(void) {
  struct ibv_wc completion = {.status = IBV_WC_GENERAL_ERR};
  const time_t end = time(NULL) + 60;
  while (ibv_poll_cq(queue, 1, &completion) == 0 && time(NULL) < end) continue;
  return completion;
}

static int post_receive(struct ibv_qp* pair, size_t offset, uint32_t length) {
  struct ibv_sge element = {(uintptr_t)memory + offset, length, region->lkey};
  struct ibv_recv_wr request = {.wr_id = offset, .sg_list = &element, .num_sge = 1}, *bad = NULL;
  return ibv_post_recv(pair, &request, &bad);
}

static int post(struct ibv_qp* pair, struct ibv_send_wr request, size_t offset, uint32_t length) {
  struct ibv_sge element = {(uintptr_t)memory + offset, length, region->lkey};
  request.sg_list = &element;
  request.num_sge = 1;
  request.send_flags |= IBV_SEND_SIGNALED;
  struct ibv_send_wr* bad = NULL;
  const int failed = ibv_post_send(pair, &request, &bad);
  if (failed != 0) CHECK("post_send names the request", bad == &request);
  return failed;
}

static void check_transfers(struct ibv_qp* pair) {
  memcpy(memory, "what is written", 16);
  struct ibv_send_wr write = {.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE};
  write.wr.rdma.remote_addr = (uintptr_t)memory + 1024;
  write.wr.rdma.rkey = region->rkey;
  CHECK_CODE("post write", post(pair, write, 0, 16), 0);
  struct ibv_wc done = wait_for_completion();
  CHECK("write completes",
        done.wr_id == 1 && done.status == IBV_WC_SUCCESS && done.opcode == IBV_WC_RDMA_WRITE);
  CHECK("write arrives", strcmp((char*)memory + 1024, "what is written") == 0);
  struct ibv_send_wr read = write;
  read.opcode = IBV_WR_RDMA_READ;
  CHECK_CODE("post read", post(pair, read, 2048, 16), 0);
  CHECK("read completes", wait_for_completion().opcode == IBV_WC_RDMA_READ);
  CHECK("read arrives", strcmp((char*)memory + 2048, "what is written") == 0);
  struct ibv_send_wr add = {.wr_id = 2, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
  add.wr.atomic.remote_addr = (uintptr_t)memory + 3072;
  add.wr.atomic.rkey = region->rkey;
  add.wr.atomic.compare_add = 5;
  uint64_t* const counter = (uint64_t*)(memory + 3072);
  *counter = 37;
  CHECK_CODE("post fetch and add", post(pair, add, 3080, 8), 0);
  CHECK("fetch and add completes", wait_for_completion().opcode == IBV_WC_FETCH_ADD);
  CHECK("fetch and add adds", counter[0] == 42 && counter[1] == 37);
  struct ibv_send_wr inlined = {.wr_id = 3, .opcode = IBV_WR_SEND_WITH_IMM};
  inlined.send_flags = IBV_SEND_INLINE;
  inlined.imm_data = htobe32(77);
  CHECK_CODE("post receive", post_receive(pair, 4096, 64), 0);
  CHECK_CODE("post send", post(pair, inlined, 0, 16), 0);
  for (int i = 0; i < 2; ++i) {
    done = wait_for_completion();
    if (done.opcode == IBV_WC_RECV)
      CHECK("receive completes", done.byte_len == 16 && done.imm_data == htobe32(77) &&
                                     (done.wc_flags & IBV_WC_WITH_IMM) != 0);
  }
  CHECK("send arrives", strcmp((char*)memory + 4096, "what is written") == 0);
  CHECK_CODE("inline that is too long", post(pair, inlined, 0, 65), EINVAL);
  write.wr.rdma.rkey += 1;
  CHECK_CODE("post with a wrong key", post(pair, write, 0, 16), 0);
  CHECK("a wrong key fails", wait_for_completion().status == IBV_WC_REM_ACCESS_ERR);
  struct ibv_qp_attr attributes;
  struct ibv_qp_init_attr init;
  CHECK("and breaks the queue pair", ibv_query_qp(pair, &attributes, IBV_QP_STATE, &init) == 0 &&
                                         attributes.qp_state == IBV_QPS_ERR);
}

static void check_connected(void) {
  struct ibv_qp* const pair = make_pair(IBV_QPT_RC);
  REQUIRE("create_qp", pair != NULL && pair->state == IBV_QPS_RESET && pair->qp_num > 1);
  CHECK("qp_to_qp_ex of a plain one", ibv_qp_to_qp_ex(pair) == NULL);
  CHECK_CODE("post_recv in RESET", post_receive(pair, 0, 64), EINVAL);
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTS};
  CHECK_CODE("modify_qp to RTS from RESET", ibv_modify_qp(pair, &attributes, IBV_QP_STATE), EINVAL);
  CHECK_CODE("modify_qp", connect_to_self(pair), 0);
  CHECK("destroy_cq in use", ibv_destroy_cq(queue) == EBUSY);
  CHECK_CODE("query_qp_data_in_order", ibv_query_qp_data_in_order(pair, IBV_WR_RDMA_WRITE, 0), 0);
  struct ibv_ece options = {.vendor_id = 1};
  CHECK_CODE("set_ece", ibv_set_ece(pair, &options), EOPNOTSUPP);
  CHECK_CODE("query_ece", ibv_query_ece(pair, &options), EOPNOTSUPP);
  union ibv_gid group = {.raw = {0xff}};
  CHECK_CODE("attach_mcast", ibv_attach_mcast(pair, &group, 0xc000), EOPNOTSUPP);
  CHECK_CODE("detach_mcast", ibv_detach_mcast(pair, &group, 0xc000), EOPNOTSUPP);
  struct ibv_flow_attr flow = {0};
  CHECK_NULL("create_flow", ibv_create_flow(pair, &flow), EOPNOTSUPP);
  struct ibv_qp_rate_limit_attr limit = {0};
  CHECK_CODE("modify_qp_rate_limit", ibv_modify_qp_rate_limit(pair, &limit), EOPNOTSUPP);
  check_transfers(pair);
  CHECK_CODE("destroy_qp", ibv_destroy_qp(pair), 0);
  CHECK_NULL("create_qp, raw packets", make_pair(IBV_QPT_RAW_PACKET), EOPNOTSUPP);
  CHECK_NULL("create_qp, xrc", make_pair(IBV_QPT_XRC_SEND), EOPNOTSUPP);
}

static void check_datagrams(void) {
  struct ibv_qp* const pair = make_pair(IBV_QPT_UD);
  REQUIRE("create_qp, datagrams", pair != NULL && connect_to_self(pair) == 0);
  struct ibv_ah_attr path = path_to_self();
  struct ibv_ah* const handle = ibv_create_ah(domain, &path);
  REQUIRE("create_ah", handle != NULL);
  struct ibv_ah_attr local = {.port_num = 1, .dlid = 1};
  if (ethernet)
    CHECK_NULL("create_ah without a global part", ibv_create_ah(domain, &local), EINVAL);
  struct ibv_ah_attr nobody = path_to_self();
  nobody.is_global = 1;
  nobody.grh.sgid_index = 77;
  CHECK_NULL("create_ah from a GID that is not there", ibv_create_ah(domain, &nobody), EINVAL);
  local.port_num = 9;
  CHECK_NULL("create_ah on another port", ibv_create_ah(domain, &local), EINVAL);
  struct ibv_send_wr send = {.wr_id = 1, .opcode = IBV_WR_SEND};
  send.wr.ud.ah = handle;
  send.wr.ud.remote_qpn = pair->qp_num;
  send.wr.ud.remote_qkey = 7;
  CHECK_CODE("post receive of a datagram", post_receive(pair, 4096, 104), 0);
  CHECK_CODE("post send of a datagram", post(pair, send, 0, 16), 0);
  struct ibv_wc received = {0};
  for (int i = 0; i < 2; ++i) {
    const struct ibv_wc done = wait_for_completion();
    if (done.opcode == IBV_WC_RECV) received = done;
  }
  CHECK("datagram arrives behind its header", received.byte_len == 56 &&
                                                  received.src_qp == pair->qp_num &&
                                                  memcmp(memory + 4136, memory, 16) == 0);
  struct ibv_grh* const header = (struct ibv_grh*)(memory + 4096);
  struct ibv_ah_attr back;
  CHECK_CODE("init_ah_from_wc", ibv_init_ah_from_wc(context, 1, &received, header, &back), 0);
  CHECK("the way back",
        back.is_global == 1 && memcmp(&back.grh.dgid, &header->sgid, sizeof header->sgid) == 0);
  struct ibv_ah* const reply = ibv_create_ah_from_wc(domain, &received, header, 1);
  CHECK("create_ah_from_wc", reply != NULL);
  send.wr.ud.ah = reply;
  CHECK_CODE("post receive of the reply", post_receive(pair, 4096, 104), 0);
  CHECK_CODE("post send of the reply", post(pair, send, 0, 16), 0);
  CHECK("the reply goes out", wait_for_completion().status == IBV_WC_SUCCESS);
  CHECK("the reply arrives", wait_for_completion().status == IBV_WC_SUCCESS);
  CHECK("destroy_ah", ibv_destroy_ah(handle) == 0 && ibv_destroy_ah(reply) == 0);
  CHECK_CODE("destroy_qp, datagrams", ibv_destroy_qp(pair), 0);
}

static void check_completion_events(void) {
  struct ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  REQUIRE("create_comp_channel", channel != NULL && channel->fd >= 0);
  struct ibv_cq* const armed = ibv_create_cq(context, 8, &failures, channel, 0);
  REQUIRE("create_cq with a channel", armed != NULL && armed->cqe >= 8);
  CHECK_CODE("destroy_comp_channel in use", ibv_destroy_comp_channel(channel), EBUSY);
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  struct ibv_cq* of = NULL;
  void* user = NULL;
  CHECK_MINUS("get_cq_event without one", ibv_get_cq_event(channel, &of, &user), EAGAIN);
  CHECK_CODE("req_notify_cq", ibv_req_notify_cq(armed, 0), 0);
  struct ibv_cq* const shared = queue;
  queue = armed;
  struct ibv_qp* const pair = make_pair(IBV_QPT_RC);
  queue = shared;
  REQUIRE("create_qp for events", pair != NULL && connect_to_self(pair) == 0);
  struct ibv_send_wr write = {.wr_id = 9, .opcode = IBV_WR_RDMA_WRITE};
  write.wr.rdma.remote_addr = (uintptr_t)memory + 1024;
  write.wr.rdma.rkey = region->rkey;
  CHECK_CODE("post for an event", post(pair, write, 0, 16), 0);
  struct pollfd waiting = {.fd = channel->fd, .events = POLLIN};
  CHECK("the channel becomes readable", poll(&waiting, 1, 60000) == 1);
  CHECK("get_cq_event",
        ibv_get_cq_event(channel, &of, &user) == 0 && of == armed && user == &failures);
  ibv_ack_cq_events(armed, 1);
  CHECK_CODE("destroy_qp of events", ibv_destroy_qp(pair), 0);
  CHECK_CODE("resize_cq", ibv_resize_cq(armed, 64), 0);
  CHECK_CODE("resize_cq to nothing", ibv_resize_cq(armed, 0), EINVAL);
  CHECK_CODE("destroy_cq", ibv_destroy_cq(armed), 0);
  CHECK_CODE("destroy_comp_channel", ibv_destroy_comp_channel(channel), 0);
}

static void check_shared_receives(void) {
  struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
  struct ibv_srq* const shared = ibv_create_srq(domain, &init);
  REQUIRE("create_srq", shared != NULL);
  struct ibv_srq_attr attributes = {.srq_limit = 4};
  CHECK_CODE("modify_srq", ibv_modify_srq(shared, &attributes, IBV_SRQ_LIMIT), 0);
  CHECK("query_srq", ibv_query_srq(shared, &attributes) == 0 && attributes.srq_limit == 4);
  attributes.srq_limit = 99;
  CHECK_CODE("modify_srq beyond", ibv_modify_srq(shared, &attributes, IBV_SRQ_LIMIT), EINVAL);
  uint32_t number;
  CHECK_CODE("get_srq_num", ibv_get_srq_num(shared, &number), EOPNOTSUPP);
  struct ibv_ops_wr operation = {0}, *bad = NULL;
  CHECK("post_srq_ops",
        ibv_post_srq_ops(shared, &operation, &bad) == EOPNOTSUPP && bad == &operation);
  CHECK_CODE("destroy_srq", ibv_destroy_srq(shared), 0);
}

static void check_extended(void) {
  struct ibv_cq_init_attr_ex init = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
  struct ibv_cq_ex* const extended = ibv_create_cq_ex(context, &init);
  REQUIRE("create_cq_ex", extended != NULL);
  struct ibv_poll_cq_attr nothing = {0};
  CHECK_CODE("start_poll when empty", ibv_start_poll(extended, &nothing), ENOENT);
  struct ibv_qp_init_attr_ex pair_init = {.send_cq = queue, .recv_cq = queue, .pd = domain};
  pair_init.qp_type = IBV_QPT_RC;
  pair_init.cap.max_send_wr = pair_init.cap.max_recv_wr = 4;
  pair_init.cap.max_send_sge = pair_init.cap.max_recv_sge = 1;
  pair_init.comp_mask = IBV_QP_INIT_ATTR_PD;
  struct ibv_qp* pair = ibv_create_qp_ex(context, &pair_init);
  CHECK("create_qp_ex, plain", pair != NULL && ibv_destroy_qp(pair) == 0);
  pair_init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  pair_init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  pair = ibv_create_qp_ex(context, &pair_init);
  CHECK("create_qp_ex, building", pair != NULL && ibv_qp_to_qp_ex(pair) != NULL);
  CHECK_CODE("destroy_qp, building", ibv_destroy_qp(pair), 0);
  pair_init.send_ops_flags = IBV_QP_EX_WITH_BIND_MW;
  CHECK_NULL("create_qp_ex for windows", ibv_create_qp_ex(context, &pair_init), EOPNOTSUPP);
  init.wc_flags = IBV_WC_EX_WITH_TM_INFO;
  CHECK_NULL("create_cq_ex for tags", ibv_create_cq_ex(context, &init), EOPNOTSUPP);
  struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE};
  CHECK_CODE("modify_cq", ibv_modify_cq(ibv_cq_ex_to_cq(extended), &moderation), EOPNOTSUPP);
  CHECK_CODE("destroy_cq, extended", ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

// Closing a device ends what the program has left on it, like the end of the process.
static void check_closing(void) {
  struct ibv_qp* const pair = make_pair(IBV_QPT_RC);
  REQUIRE("create_qp before closing", pair != NULL);
  struct ibv_context* const second = ibv_open_device(context->device);
  REQUIRE("open_device again", second != NULL && second != context);
  struct ibv_pd* const its_domain = ibv_alloc_pd(second);
  struct ibv_cq* const its_queue = ibv_create_cq(second, 8, NULL, NULL, 0);
  struct ibv_qp_init_attr init = {
      .send_cq = its_queue, .recv_cq = its_queue, .qp_type = IBV_QPT_RC};
  init.cap.max_send_wr = init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
  struct ibv_qp* left[3];
  for (int i = 0; i < 3; ++i) left[i] = ibv_create_qp(its_domain, &init);
  REQUIRE("create_qp on it", left[0] != NULL && left[1] != NULL && left[2] != NULL);
  CHECK("modify_qp on both", connect_to_self(left[0]) == 0 && connect_to_self(left[1]) == 0 &&
                                 connect_to(left[2], pair->qp_num) == 0 &&
                                 connect_to(pair, left[2]->qp_num) == 0);
  CHECK_CODE("close_device with queue pairs", ibv_close_device(second), 0);
  const struct ibv_send_wr send = {.wr_id = 1, .opcode = IBV_WR_SEND};
  CHECK_CODE("post to one of them", post(pair, send, 0, 16), 0);
  CHECK("none is there", wait_for_completion().status == IBV_WC_RETRY_EXC_ERR);
  CHECK_CODE("destroy_qp after closing", ibv_destroy_qp(pair), 0);
}

// A forked child may destroy what it has inherited. Its parent keeps all of it.
static void check_forked_child(void) {
  struct ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  REQUIRE("create_comp_channel before fork", channel != NULL);
  struct ibv_cq* const shared = queue;
  queue = ibv_create_cq(context, 8, NULL, channel, 0);
  struct ibv_qp* const pair = make_pair(IBV_QPT_RC);
  REQUIRE("create_qp before fork", pair != NULL && connect_to_self(pair) == 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    struct ibv_cq* of = NULL;
    void* user = NULL;
    CHECK_MINUS("get_cq_event in the child", ibv_get_cq_event(channel, &of, &user), EOWNERDEAD);
    CHECK_NULL("reg_mr in the child", ibv_reg_mr(domain, memory, 64, 0), EOWNERDEAD);
    CHECK_CODE("destroy_qp in the child", ibv_destroy_qp(pair), 0);
    CHECK_CODE("destroy_cq in the child", ibv_destroy_cq(queue), 0);
    CHECK_CODE("destroy_comp_channel in the child", ibv_destroy_comp_channel(channel), 0);
    CHECK_CODE("dereg_mr in the child", ibv_dereg_mr(region), 0);
    CHECK_CODE("dealloc_pd in the child", ibv_dealloc_pd(domain), 0);
    CHECK_CODE("close_device in the child", ibv_close_device(context), 0);
    exit(failures != 0);
  }
  int status = -1;
  CHECK("the child", waitpid(child, &status, 0) == child && status == 0);
  CHECK_CODE("req_notify_cq after the child", ibv_req_notify_cq(queue, 0), 0);
  struct ibv_send_wr write = {.wr_id = 9, .opcode = IBV_WR_RDMA_WRITE};
  write.wr.rdma.remote_addr = (uintptr_t)memory + 1024;
  write.wr.rdma.rkey = region->rkey;
  CHECK_CODE("post after the child", post(pair, write, 0, 16), 0);
  CHECK("write after the child", wait_for_completion().status == IBV_WC_SUCCESS);
  struct pollfd waiting = {.fd = channel->fd, .events = POLLIN};
  CHECK("event after the child", poll(&waiting, 1, 60000) == 1);
  CHECK_CODE("destroy_qp after the child", ibv_destroy_qp(pair), 0);
  CHECK_CODE("destroy_cq after the child", ibv_destroy_cq(queue), 0);
  CHECK_CODE("destroy_comp_channel after the child", ibv_destroy_comp_channel(channel), 0);
  queue = shared;
}

static void check_what_is_missing(void) {
  struct ibv_xrcd_init_attr xrc = {.comp_mask = 3, .fd = -1, .oflags = O_CREAT};
  CHECK_NULL("open_xrcd", ibv_open_xrcd(context, &xrc), EOPNOTSUPP);
  struct ibv_td_init_attr thread = {0};
  CHECK_NULL("alloc_td", ibv_alloc_td(context, &thread), EOPNOTSUPP);
  struct ibv_parent_domain_init_attr parent = {.pd = domain};
  CHECK_NULL("alloc_parent_domain", ibv_alloc_parent_domain(context, &parent), EOPNOTSUPP);
  struct ibv_alloc_dm_attr device_memory = {.length = 64};
  CHECK_NULL("alloc_dm", ibv_alloc_dm(context, &device_memory), EOPNOTSUPP);
  CHECK_NULL("alloc_null_mr", ibv_alloc_null_mr(domain), EOPNOTSUPP);
  struct ibv_wq_init_attr work_queue = {.pd = domain, .cq = queue};
  CHECK_NULL("create_wq", ibv_create_wq(context, &work_queue), EOPNOTSUPP);
  struct ibv_rwq_ind_table_init_attr table = {0};
  CHECK_NULL("create_rwq_ind_table", ibv_create_rwq_ind_table(context, &table), EOPNOTSUPP);
  struct ibv_counters_init_attr counters = {0};
  CHECK_NULL("create_counters", ibv_create_counters(context, &counters), EOPNOTSUPP);
  struct ibv_flow_action_esp_attr action = {0};
  CHECK_NULL("create_flow_action", ibv_create_flow_action_esp(context, &action), EOPNOTSUPP);
  struct ibv_sge element = {(uintptr_t)memory, 64, region->lkey};
  CHECK_CODE("advise_mr", ibv_advise_mr(domain, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &element, 1),
             EOPNOTSUPP);
  struct ibv_srq_init_attr_ex xsrq = {.attr = {.max_wr = 1, .max_sge = 1}, .pd = domain};
  xsrq.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  xsrq.srq_type = IBV_SRQT_XRC;
  CHECK_NULL("create_srq_ex, xrc", ibv_create_srq_ex(context, &xsrq), EOPNOTSUPP);
  struct ibv_qp_open_attr shared = {0};
  CHECK_NULL("open_qp", ibv_open_qp(context, &shared), EOPNOTSUPP);
  fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  struct ibv_async_event event;
  int read = ibv_get_async_event(context, &event);
  while (read == 0) {  // Whatever the queue pairs above left.
    ibv_ack_async_event(&event);
    read = ibv_get_async_event(context, &event);
  }
  CHECK("get_async_event without one", read == -1 && errno == EAGAIN);
}

int main(int count, char** arguments) {
  check_short_lists();  // First, while the number of devices is open.
  check_devices(count > 1 ? arguments[1] : "soft0");
  check_paths();
  check_queries();
  check_memory();
  queue = ibv_create_cq(context, 64, NULL, NULL, 0);
  REQUIRE("create_cq", queue != NULL);
  CHECK_NULL("create_cq of nothing", ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
  CHECK_NULL("create_cq on another vector", ibv_create_cq(context, 8, NULL, NULL, 99), EINVAL);
  check_connected();
  check_datagrams();
  check_completion_events();
  check_shared_receives();
  check_extended();
  check_closing();
  check_forked_child();
  check_what_is_missing();
  CHECK("strings", strlen(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)) > 0 &&
                       strlen(ibv_event_type_str(IBV_EVENT_CQ_ERR)) > 0);
  CHECK("rates", ibv_rate_to_mbps(IBV_RATE_40_GBPS) == 40000 &&
                     mbps_to_ibv_rate(25781) == IBV_RATE_25_GBPS &&
                     ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4 &&
                     mult_to_ibv_rate(1) == IBV_RATE_2_5_GBPS);
  CHECK_CODE("destroy_cq at the end", ibv_destroy_cq(queue), 0);
  CHECK_CODE("dereg_mr", ibv_dereg_mr(region), 0);
  CHECK_CODE("dealloc_pd", ibv_dealloc_pd(domain), 0);
  CHECK_CODE("close_device", ibv_close_device(context), 0);
  free(memory);
  return failures != 0;
}
