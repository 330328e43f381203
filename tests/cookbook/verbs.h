// SPDX-License-Identifier: MIT OR Apache-2.0
// What the programs of the cookbook share, so that each shows its bug and little else: a device,
// two queue pairs of one process that are connected to each other, and waits that end.
#ifndef VERBATIM_TESTS_COOKBOOK_VERBS_H
#define VERBATIM_TESTS_COOKBOOK_VERBS_H

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 4096
#define ALL_ACCESS                                                             \
  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
   IBV_ACCESS_REMOTE_ATOMIC)

// What a program needs in order to show anything at all. Bugs never go through it.
#define NEED(condition) need((condition), #condition, __FILE__, __LINE__)
static inline void need(bool holds, const char* what, const char* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: %s does not hold: %s\n", file, line, what, strerror(errno));
  exit(1);
}

// One end of a connection, with SIZE bytes of registered memory.
struct side {
  struct ibv_cq* cq;
  struct ibv_qp* qp;
  char* memory;
  struct ibv_mr* mr;
};
struct pair {
  struct ibv_context* context;
  struct ibv_pd* pd;
  struct side a, b;
};
// How to make and connect a pair. Both ends get the same.
struct setup {
  enum ibv_qp_type type;
  struct ibv_qp_cap cap;
  int cqe;
  int sq_sig_all;
  struct ibv_qp_attr attr;
};

static inline struct setup usual(void) {
  return (struct setup){
      .type = IBV_QPT_RC,
      .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
      .cqe = 64,
      .attr = {.qp_access_flags = ALL_ACCESS,
               .path_mtu = IBV_MTU_1024,
               .max_dest_rd_atomic = 4,
               .max_rd_atomic = 4,
               .min_rnr_timer = 12,  // 0.64 ms
               .timeout = 12,        // 17 ms
               .retry_cnt = 3,
               .rnr_retry = 7}};  // for ever
}

// The device of COOKBOOK_DEVICE, else the first.
static inline struct ibv_context* open_device(void) {
  const char* name = getenv("COOKBOOK_DEVICE");
  struct ibv_device** list = ibv_get_device_list(NULL);
  NEED(list != NULL && list[0] != NULL);
  struct ibv_device** each = list;
  while (name != NULL && *each != NULL && strcmp(ibv_get_device_name(*each), name) != 0) ++each;
  NEED(*each != NULL);
  struct ibv_context* context = ibv_open_device(*each);
  NEED(context != NULL);
  ibv_free_device_list(list);
  return context;
}

static inline struct side make_side(struct ibv_context* context, struct ibv_pd* pd,
                                    const struct setup* setup) {
  struct side side = {.cq = ibv_create_cq(context, setup->cqe, NULL, NULL, 0)};
  NEED(side.cq != NULL);
  side.memory = aligned_alloc(SIZE, SIZE);
  NEED(side.memory != NULL);
  memset(side.memory, 0, SIZE);
  side.mr = ibv_reg_mr(pd, side.memory, SIZE, ALL_ACCESS);
  NEED(side.mr != NULL);
  struct ibv_qp_init_attr attr = {.send_cq = side.cq,
                                  .recv_cq = side.cq,
                                  .cap = setup->cap,
                                  .qp_type = setup->type,
                                  .sq_sig_all = setup->sq_sig_all};
  side.qp = ibv_create_qp(pd, &attr);
  NEED(side.qp != NULL);
  return side;
}

// The address of the port: its LID, or on Ethernet the GID of an IPv4 address, else the first GID.
static inline struct ibv_ah_attr own_address(struct ibv_context* context) {
  struct ibv_port_attr port;
  NEED(ibv_query_port(context, 1, &port) == 0);
  struct ibv_ah_attr address = {.dlid = port.lid, .port_num = 1};
  if (port.link_layer != IBV_LINK_LAYER_ETHERNET) return address;
  union ibv_gid gid;
  int index = 0;
  for (int i = port.gid_tbl_len < 8 ? port.gid_tbl_len - 1 : 7; i > 0; --i)
    if (ibv_query_gid(context, 1, i, &gid) == 0 && IN6_IS_ADDR_V4MAPPED((struct in6_addr*)gid.raw))
      index = i;
  NEED(ibv_query_gid(context, 1, index, &gid) == 0);
  address.is_global = 1;
  address.grh = (struct ibv_global_route){.dgid = gid, .sgid_index = index, .hop_limit = 64};
  return address;
}

// The three steps of a reliable connection; each returns what ibv_modify_qp returned.
static inline int to_init(struct ibv_qp* qp, const struct setup* setup) {
  struct ibv_qp_attr attr = setup->attr;
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline int to_rtr(struct ibv_qp* qp, const struct ibv_qp* peer, const struct setup* setup) {
  struct ibv_qp_attr attr = setup->attr;
  attr.qp_state = IBV_QPS_RTR;
  attr.dest_qp_num = peer->qp_num;
  if (attr.ah_attr.port_num == 0) attr.ah_attr = own_address(qp->context);
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static inline int to_rts(struct ibv_qp* qp, const struct setup* setup) {
  struct ibv_qp_attr attr = setup->attr;
  attr.qp_state = IBV_QPS_RTS;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static inline void connect_sides(struct side* a, struct side* b, const struct setup* setup) {
  NEED(to_init(a->qp, setup) == 0 && to_init(b->qp, setup) == 0);
  NEED(to_rtr(a->qp, b->qp, setup) == 0 && to_rtr(b->qp, a->qp, setup) == 0);
  NEED(to_rts(a->qp, setup) == 0 && to_rts(b->qp, setup) == 0);
}

// Two ends that are not connected yet, and two that are.
static inline struct pair make_pair(const struct setup* setup) {
  struct pair pair = {.context = open_device()};
  pair.pd = ibv_alloc_pd(pair.context);
  NEED(pair.pd != NULL);
  pair.a = make_side(pair.context, pair.pd, setup);
  pair.b = make_side(pair.context, pair.pd, setup);
  return pair;
}

static inline struct pair connected(struct setup setup) {
  struct pair pair = make_pair(&setup);
  connect_sides(&pair.a, &pair.b, &setup);
  return pair;
}

// Work requests without anything special; they return what the verb returned.
static inline struct ibv_sge part_of(const struct side* side, size_t offset, uint32_t length) {
  return (struct ibv_sge){(uintptr_t)side->memory + offset, length, side->mr->lkey};
}

static inline int post_receive(struct side* side, uint64_t id, size_t offset, uint32_t length) {
  struct ibv_sge part = part_of(side, offset, length);
  struct ibv_recv_wr receive = {.wr_id = id, .sg_list = &part, .num_sge = 1}, *bad;
  return ibv_post_recv(side->qp, &receive, &bad);
}

static inline int post_send(struct side* side, uint64_t id, size_t offset, uint32_t length) {
  struct ibv_sge part = part_of(side, offset, length);
  struct ibv_send_wr send = {.wr_id = id,
                             .sg_list = &part,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                     *bad;
  return ibv_post_send(side->qp, &send, &bad);
}

// A write or read between the memory of two sides, from their beginning on.
static inline int post_rdma(struct side* side, const struct side* peer, enum ibv_wr_opcode opcode,
                            uint32_t length) {
  struct ibv_sge part = part_of(side, 0, length);
  struct ibv_send_wr work = {.sg_list = &part,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.rdma = {(uintptr_t)peer->memory, peer->mr->rkey}},
                     *bad;
  return ibv_post_send(side->qp, &work, &bad);
}

static inline double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Whether a completion came within that time. One that is there is found, however late we look.
static inline bool poll_within(struct ibv_cq* cq, double limit_s, struct ibv_wc* completion) {
  const double end = seconds() + limit_s;
  bool last = false;
  int found;
  while ((found = ibv_poll_cq(cq, 1, completion)) == 0 && !last) last = seconds() >= end;
  return found == 1;
}

// The next completion, which has to come.
static inline struct ibv_wc next(struct ibv_cq* cq) {
  struct ibv_wc completion;
  NEED(poll_within(cq, 60, &completion));
  return completion;
}

// Names as verbs.h and errno.h spell them.
static inline const char* status_name(enum ibv_wc_status status) {
  static const char* const names[] = {"IBV_WC_SUCCESS",           "IBV_WC_LOC_LEN_ERR",
                                      "IBV_WC_LOC_QP_OP_ERR",     "IBV_WC_LOC_EEC_OP_ERR",
                                      "IBV_WC_LOC_PROT_ERR",      "IBV_WC_WR_FLUSH_ERR",
                                      "IBV_WC_MW_BIND_ERR",       "IBV_WC_BAD_RESP_ERR",
                                      "IBV_WC_LOC_ACCESS_ERR",    "IBV_WC_REM_INV_REQ_ERR",
                                      "IBV_WC_REM_ACCESS_ERR",    "IBV_WC_REM_OP_ERR",
                                      "IBV_WC_RETRY_EXC_ERR",     "IBV_WC_RNR_RETRY_EXC_ERR",
                                      "IBV_WC_LOC_RDD_VIOL_ERR",  "IBV_WC_REM_INV_RD_REQ_ERR",
                                      "IBV_WC_REM_ABORT_ERR",     "IBV_WC_INV_EECN_ERR",
                                      "IBV_WC_INV_EEC_STATE_ERR", "IBV_WC_FATAL_ERR",
                                      "IBV_WC_RESP_TIMEOUT_ERR",  "IBV_WC_GENERAL_ERR"};
  return status < sizeof names / sizeof *names ? names[status] : "another status";
}

static inline const char* error_name(int error) {
  const char* name = strerrorname_np(error);
  return error == 0 ? "0" : name != NULL ? name : "no errno";
}

// Ends a program that hangs, after so many seconds, with this as its last word.
static const char* hang_text;
static inline void on_alarm(int number) {
  (void)number;
  ssize_t written = write(STDOUT_FILENO, hang_text, strlen(hang_text));
  _exit(written < 0);
}
static inline void expect_hang(unsigned limit_s, const char* text) {
  hang_text = text;
  fflush(stdout);
  signal(SIGALRM, on_alarm);
  alarm(limit_s);
}

#endif
