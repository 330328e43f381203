// SPDX-License-Identifier: MIT OR Apache-2.0
#include "null.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <thread>

#include "null_control.hpp"
#include "null_objects.hpp"

namespace verbatim::null {
namespace {

// ---- Devices

std::array<ibv_device, NullKnobs::kMaxDevices> devices;

ibv_device** get_device_list(int* count) {
  const std::size_t size = std::min(knobs.device_count, devices.size());
  auto* const list = new ibv_device*[size + 1]();
  for (std::size_t i = 0; i < size; ++i) {
    ibv_device& device = devices[i];
    device.node_type = knobs.node_type;
    device.transport_type = knobs.transport_type;
    std::snprintf(device.name, sizeof device.name, "null%zu", i);
    std::snprintf(device.dev_name, sizeof device.dev_name, "uverbs%zu", i);
    list[i] = &device;
  }
  if (count != nullptr) *count = static_cast<int>(size);
  ++live;
  return list;
}

void free_device_list(ibv_device** list) {
  delete[] list;
  --live;
}

__be64 get_device_guid(ibv_device* device) {
  const auto index = static_cast<std::uint64_t>(device - devices.data());
  return std::byteswap(0x0200'0000'0000'0001 + index);
}

ibv_context* open_device(ibv_device* device) {
  // Without extended verbs (abi_compat stays null): those that we have are in the table.
  auto* const context = new Context{device};
  context->num_comp_vectors = knobs.completion_vectors;
  set_data_path(context->ops);
  return context;
}

int close_device(ibv_context* context) {
  if (mine(context)->users != 0) {
    errno = EBUSY;
    return -1;
  }
  delete mine(context);
  return 0;
}

int query_device(ibv_context* context, ibv_device_attr_ex* attributes) {
  *attributes = {};
  attributes->orig_attr = knobs.device;
  attributes->orig_attr.node_guid = get_device_guid(context->device);
  attributes->phys_port_cnt_ex = knobs.device.phys_port_cnt;
  return 0;
}

int query_port(ibv_context*, std::uint8_t port, ibv_port_attr* attributes) {
  if (!has_port(port)) return EINVAL;
  *attributes = knobs.port;
  return 0;
}

ssize_t query_gid_table(ibv_context*, ibv_gid_entry* entries, std::size_t max) {
  const std::size_t count = std::min({knobs.gid_count, knobs.gids.size(), max});
  std::copy_n(knobs.gids.begin(), count, entries);
  return static_cast<ssize_t>(count);
}

int query_pkey(ibv_context*, std::uint8_t port, int index, __be16* key) {
  if (!has_port(port) || index < 0 || index >= knobs.port.pkey_tbl_len ||
      index >= std::ssize(knobs.partition_keys)) {
    errno = EINVAL;
    return -1;
  }
  *key = std::byteswap(knobs.partition_keys[static_cast<std::size_t>(index)]);
  return 0;
}

// ---- Events

/// Where the taken but not acknowledged events of an object are counted; null for events of a port
/// or of the device.
std::atomic<int>* unacknowledged(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: return &mine(event.element.cq)->unacknowledged;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return &mine(event.element.qp)->unacknowledged;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return &mine(event.element.srq)->unacknowledged;
    default: return nullptr;
  }
}

/// Makes taking an event and counting it one step for a thread that destroys the event's object.
std::mutex event_mutex;

int get_async_event(ibv_context* context, ibv_async_event* event) {
  // A reader that may block must not hold the lock meanwhile.
  std::unique_lock lock{event_mutex, std::defer_lock};
  if ((fcntl(context->async_fd, F_GETFL) & O_NONBLOCK) != 0) lock.lock();
  if (mine(context)->events.take(*event) != 0) return -1;
  if (std::atomic<int>* const count = unacknowledged(*event)) ++*count;
  return 0;
}

void ack_async_event(ibv_async_event* event) {
  if (std::atomic<int>* const count = unacknowledged(*event)) --*count;
}

// ---- Memory and addresses

void* alloc_memory(ibv_context*, std::size_t bytes, HugePages huge_pages) {
  const int huge = huge_pages == HugePages::reserved ? MAP_HUGETLB : 0;
  void* const address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | huge, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  madvise(address, bytes, MADV_DONTFORK);
  ++live;
  return address;
}

int free_memory(ibv_context*, void* address, std::size_t bytes) {
  if (munmap(address, bytes) != 0) return errno;
  --live;
  return 0;
}

ibv_pd* alloc_pd(ibv_context* context) { return new Domain{mine(context)}; }

int dealloc_pd(ibv_pd* domain) {
  if (mine(domain)->users != 0) return EBUSY;
  delete mine(domain);
  return 0;
}

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t length, unsigned access) {
  const bool remote_writes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (length == 0 || length > knobs.device.max_mr_size ||
      (remote_writes && (access & IBV_ACCESS_LOCAL_WRITE) == 0))
    return refuse<ibv_mr>(EINVAL);
  return new Region{mine(domain), address, length};
}

ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t length, std::uint64_t,
                      int fd, int access) {
  if (fd < 0) return refuse<ibv_mr>(EBADF);
  // libibverbs puts the offset there, too.
  return reg_mr(domain, reinterpret_cast<void*>(offset), length, static_cast<unsigned>(access));
}

int rereg_mr(ibv_mr* raw, int flags, ibv_pd* domain, void* address, std::size_t length,
             int access) {
  auto& region = *static_cast<Region*>(raw);
  const bool remote_writes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
      (remote_writes && (access & IBV_ACCESS_LOCAL_WRITE) == 0)) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    Use moved{mine(domain)};
    region.domain_use.swap(moved);
    region.pd = domain;
  }
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    region.addr = address;
    region.length = length;
  }
  region.renew_keys();
  return 0;
}

int dereg_mr(ibv_mr* region) {
  delete static_cast<Region*>(region);
  return 0;
}

ibv_ah* create_ah(ibv_pd* domain, ibv_ah_attr* attributes) {
  if (!has_port(attributes->port_num)) return refuse<ibv_ah>(EINVAL);
  return new AddressHandle{mine(domain)};
}

int destroy_ah(ibv_ah* handle) {
  delete static_cast<AddressHandle*>(handle);
  return 0;
}

Provider make_table() {
  Provider table{};
  table.name = "null";
  table.get_device_list = &get_device_list;
  table.free_device_list = &free_device_list;
  table.get_device_guid = &get_device_guid;
  table.open_device = &open_device;
  table.close_device = &close_device;
  table.query_device = &query_device;
  table.query_port = &query_port;
  table.query_gid_table = &query_gid_table;
  table.query_pkey = &query_pkey;
  table.transport = [](ibv_device*) { return knobs.transport; };
  table.fabric_id = [](ibv_context*) { return knobs.fabric_id; };
  table.get_async_event = &get_async_event;
  table.ack_async_event = &ack_async_event;
  table.alloc_memory = &alloc_memory;
  table.free_memory = &free_memory;
  table.alloc_pd = &alloc_pd;
  table.dealloc_pd = &dealloc_pd;
  table.reg_mr = &reg_mr;
  table.reg_dmabuf_mr = &reg_dmabuf_mr;
  table.rereg_mr = &rereg_mr;
  table.dereg_mr = &dereg_mr;
  table.create_ah = &create_ah;
  table.destroy_ah = &destroy_ah;
  add_queues(table);
  return table;
}

}  // namespace

bool forget_events(ibv_context* context, const std::atomic<int>& count) {
  {
    const std::lock_guard lock{event_mutex};
    mine(context)->events.drop(
        [&](const ibv_async_event& event) { return unacknowledged(event) == &count; });
  }
  const auto deadline = std::chrono::steady_clock::now() + knobs.acknowledgement;
  while (count != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace verbatim::null

namespace verbatim {

NullKnobs::NullKnobs() noexcept {
  std::snprintf(device.fw_ver, sizeof device.fw_ver, "null.1");
  device.max_mr_size = std::uint64_t{1} << 40;
  device.page_size_cap = 0xfffff000;
  device.vendor_id = 0x1234;
  device.vendor_part_id = 0x5678;
  device.max_qp = device.max_cq = device.max_mr = device.max_pd = device.max_ah = 4096;
  device.max_qp_wr = 4096;
  device.max_sge = 16;
  device.max_sge_rd = 8;
  device.max_cqe = 65536;
  device.max_qp_rd_atom = device.max_qp_init_rd_atom = 16;
  device.max_res_rd_atom = 4096;
  device.atomic_cap = IBV_ATOMIC_HCA;
  device.max_srq = 1024;
  device.max_srq_wr = 4096;
  device.max_srq_sge = 16;
  device.max_pkeys = 16;
  device.phys_port_cnt = 1;

  port.state = IBV_PORT_ACTIVE;
  port.max_mtu = port.active_mtu = IBV_MTU_4096;
  port.gid_tbl_len = 16;
  port.max_msg_sz = std::uint32_t{1} << 31;
  port.pkey_tbl_len = 1;
  port.lid = 1;
  port.link_layer = IBV_LINK_LAYER_INFINIBAND;

  gids[0].gid.raw[0] = 0xfe;
  gids[0].gid.raw[1] = 0x80;
  gids[0].gid.raw[15] = 1;
  gids[0].port_num = 1;
  gids[0].gid_type = IBV_GID_TYPE_IB;
}

}  // namespace verbatim

#define VERBATIM_EXPORT [[gnu::visibility("default")]]

VERBATIM_EXPORT const verbatim::Provider* verbatim_null_provider() {
  static const verbatim::Provider table = verbatim::null::make_table();
  return &table;
}

VERBATIM_EXPORT verbatim::NullKnobs& verbatim_null_knobs() { return verbatim::null::knobs; }

VERBATIM_EXPORT int verbatim_null_live_objects() { return verbatim::null::live; }

VERBATIM_EXPORT int verbatim_null_raise(ibv_context* context, const ibv_async_event* event) {
  verbatim::null::mine(context)->events.push(*event);
  return 0;
}

VERBATIM_EXPORT int verbatim_null_complete(ibv_cq* raw, const ibv_wc* completion) {
  verbatim::null::CompletionQueue& queue = *verbatim::null::mine(raw);
  queue.injected.push_back(*completion);
  verbatim::null::raise_completion(queue, true);
  return 0;
}

VERBATIM_EXPORT int verbatim_null_fail_send(ibv_qp* queue_pair, ibv_wc_status status) {
  verbatim::null::QueuePair& broken = *verbatim::null::mine(queue_pair);
  if (broken.state != IBV_QPS_RTS) return EINVAL;
  broken.ordered = status;
  broken.plain = false;
  return 0;
}
