// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/abi/extended_verbs.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "soft/abi/scripted_verbs.hpp"
#include "soft/completer/completion_queue.hpp"
#include "soft/completer/poll.hpp"
#include "soft/control/completion_queue.hpp"
#include "soft/control/device.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/requester/post.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {

/// The requests between ibv_wr_start and ibv_wr_complete. The queue pair keeps this storage, so
/// building a request allocates only when the storage has to grow.
struct Builder {
  struct Request {
    ibv_send_wr request;
    ibv_sge elements[kMaxElements];
    std::byte inline_data[1024];
  };
  std::unique_ptr<Request[]> requests;
  std::uint32_t capacity = 0;
  std::uint32_t count = 0;
  int failed = 0;
};

namespace {

// ---- completions ------------------------------------------------------------------------------

CompletionQueue& queue_of(ibv_cq_ex* queue) noexcept {
  return *reinterpret_cast<CompletionQueue*>(queue);
}

/// If the queue was created with time stamps, records the time of the poll. The time at which the
/// peer completed the message is not known here.
template <bool Timed>
int next_completion(ibv_cq_ex* raw) noexcept {
  CompletionQueue& queue = queue_of(raw);
  const int count = poll(queue.handle(), 1, &queue.current);
  if (count == 0) return ENOENT;
  if (count < 0) return EINVAL;
  if constexpr (Timed) queue.current_ns = now_ns();
  raw->wr_id = queue.current.wr_id;
  raw->status = queue.current.status;
  return 0;
}
/// If several threads may poll, the one whose start_poll succeeds keeps the others out until its
/// end_poll: the queue has room for one completion to read. So do the drivers of hardware.
template <bool Timed, bool Locked>
int start_poll(ibv_cq_ex* raw, ibv_poll_cq_attr* attributes) noexcept {
  if (attributes->comp_mask != 0) return EINVAL;
  if constexpr (Locked) queue_of(raw).poll_lock.lock();
  const int failed = next_completion<Timed>(raw);
  if constexpr (Locked)
    if (failed != 0) queue_of(raw).poll_lock.unlock();
  return failed;
}
template <bool Locked>
void end_poll(ibv_cq_ex* raw) noexcept {
  if constexpr (Locked) queue_of(raw).poll_lock.unlock();
}
template <bool Timed, bool Locked>
void fill_polling(ibv_cq_ex& queue) noexcept {
  queue.start_poll = &start_poll<Timed, Locked>;
  queue.next_poll = &next_completion<Timed>;
  queue.end_poll = &end_poll<Locked>;
}

template <auto Field>
auto read(ibv_cq_ex* raw) noexcept {
  return queue_of(raw).current.*Field;
}
ibv_wc_opcode read_opcode(ibv_cq_ex* raw) noexcept { return queue_of(raw).current.opcode; }
__be32 read_immediate(ibv_cq_ex* raw) noexcept { return queue_of(raw).current.imm_data; }
std::uint32_t read_slid(ibv_cq_ex* raw) noexcept { return queue_of(raw).current.slid; }
unsigned read_flags(ibv_cq_ex* raw) noexcept { return queue_of(raw).current.wc_flags; }
std::uint64_t read_time(ibv_cq_ex* raw) noexcept { return queue_of(raw).current_ns; }
std::uint64_t read_wall_time(ibv_cq_ex* raw) noexcept {
  // In this order, so that it never lies before the completion: this thread may stop in between.
  const std::uint64_t age = now_ns() - queue_of(raw).current_ns;
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds{wall}.count()) - age;
}

constexpr std::uint64_t kTimed =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

constexpr std::uint64_t kReadable =
    IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
    IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS | kTimed;

/// Reports the clock that the time stamps use.
int query_values(ibv_context*, ibv_values_ex* values) noexcept {
  if ((values->comp_mask & ~unsigned{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return EINVAL;
  if (values->comp_mask != 0)
    values->raw_clock = {.tv_sec = 0, .tv_nsec = static_cast<long>(now_ns())};
  return 0;
}

ibv_cq_ex* create_queue_unguarded(ibv_context* context, ibv_cq_init_attr_ex* init) {
  constexpr std::uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  const std::uint32_t flags =
      (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? init->flags : 0;
  // The program calls a reader through its pointer in the queue. For an unknown flag that pointer
  // would be null, so refuse such flags. An overrun always breaks the queue.
  if ((init->wc_flags & ~kReadable) != 0 || (init->comp_mask & ~kKnown) != 0 ||
      (flags & ~std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_cq* const made =
      create_completion_queue(context, static_cast<int>(init->cqe), init->cq_context, init->channel,
                              static_cast<int>(init->comp_vector));
  if (made == nullptr) return nullptr;
  ibv_cq_ex& queue = CompletionQueue::of(made).raw;
  const bool timed = (init->wc_flags & kTimed) != 0;
  if ((flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0)
    timed ? fill_polling<true, false>(queue) : fill_polling<false, false>(queue);
  else
    timed ? fill_polling<true, true>(queue) : fill_polling<false, true>(queue);
  queue.read_opcode = &read_opcode;
  queue.read_vendor_err = &read<&ibv_wc::vendor_err>;
  queue.read_byte_len = &read<&ibv_wc::byte_len>;
  queue.read_imm_data = &read_immediate;
  queue.read_qp_num = &read<&ibv_wc::qp_num>;
  queue.read_src_qp = &read<&ibv_wc::src_qp>;
  queue.read_wc_flags = &read_flags;
  queue.read_slid = &read_slid;
  queue.read_sl = &read<&ibv_wc::sl>;
  queue.read_completion_ts = &read_time;
  queue.read_completion_wallclock_ns = &read_wall_time;
  queue.read_dlid_path_bits = &read<&ibv_wc::dlid_path_bits>;
  return &queue;
}

// ---- requests ---------------------------------------------------------------------------------

QueuePair& pair_of(ibv_qp_ex* raw) noexcept { return QueuePair::of(&raw->qp_base); }

/// The request that the setters fill in. nullptr after a failure; the rest of the list is then
/// skipped.
Builder::Request* latest(ibv_qp_ex* raw) noexcept {
  Builder& builder = *pair_of(raw).builder;
  return builder.failed == 0 && builder.count > 0 ? &builder.requests[builder.count - 1] : nullptr;
}

Builder::Request* add(ibv_qp_ex* raw, ibv_wr_opcode opcode) noexcept {
  Builder& builder = *pair_of(raw).builder;
  if (builder.failed == 0 && builder.count == builder.capacity) builder.failed = ENOMEM;
  if (builder.failed != 0) return nullptr;
  Builder::Request& added = builder.requests[builder.count++];
  added.request = {};
  added.request.wr_id = raw->wr_id;
  added.request.opcode = opcode;
  added.request.send_flags = raw->wr_flags;
  added.request.sg_list = added.elements;
  return &added;
}

void wr_start(ibv_qp_ex* raw) noexcept {
  QueuePair& queue_pair = pair_of(raw);
  queue_pair.build_lock.lock();
  queue_pair.builder->count = 0;
  queue_pair.builder->failed = 0;
}
void wr_abort(ibv_qp_ex* raw) noexcept { pair_of(raw).build_lock.unlock(); }
int wr_complete(ibv_qp_ex* raw) noexcept {
  QueuePair& queue_pair = pair_of(raw);
  Builder& builder = *queue_pair.builder;
  int failed = builder.failed;
  if (failed == 0 && builder.count > 0) {
    for (std::uint32_t i = 0; i + 1 < builder.count; ++i)
      builder.requests[i].request.next = &builder.requests[i + 1].request;
    ibv_send_wr* const first = &builder.requests[0].request;
    ibv_send_wr* rejected = nullptr;
    // One request runs whole or not at all anyway, and has a faster path.
    failed = builder.count == 1 ? post_send(&queue_pair.raw, first, &rejected)
                                : post_all_or_none(&queue_pair.raw, first);
  }
  queue_pair.build_lock.unlock();
  return failed;
}

void wr_send(ibv_qp_ex* raw) noexcept { add(raw, IBV_WR_SEND); }
void wr_send_immediate(ibv_qp_ex* raw, __be32 immediate) noexcept {
  if (auto* const added = add(raw, IBV_WR_SEND_WITH_IMM)) added->request.imm_data = immediate;
}
void set_remote(Builder::Request* added, std::uint32_t key, std::uint64_t address) noexcept {
  if (added == nullptr) return;
  added->request.wr.rdma.rkey = key;
  added->request.wr.rdma.remote_addr = address;
}
void wr_write(ibv_qp_ex* raw, std::uint32_t key, std::uint64_t address) noexcept {
  set_remote(add(raw, IBV_WR_RDMA_WRITE), key, address);
}
void wr_write_immediate(ibv_qp_ex* raw, std::uint32_t key, std::uint64_t address,
                        __be32 immediate) noexcept {
  auto* const added = add(raw, IBV_WR_RDMA_WRITE_WITH_IMM);
  set_remote(added, key, address);
  if (added != nullptr) added->request.imm_data = immediate;
}
void wr_read(ibv_qp_ex* raw, std::uint32_t key, std::uint64_t address) noexcept {
  set_remote(add(raw, IBV_WR_RDMA_READ), key, address);
}
void wr_compare_swap(ibv_qp_ex* raw, std::uint32_t key, std::uint64_t address,
                     std::uint64_t compare, std::uint64_t swap) noexcept {
  if (auto* const added = add(raw, IBV_WR_ATOMIC_CMP_AND_SWP))
    added->request.wr.atomic = {address, compare, swap, key};
}
void wr_fetch_add(ibv_qp_ex* raw, std::uint32_t key, std::uint64_t address,
                  std::uint64_t value) noexcept {
  if (auto* const added = add(raw, IBV_WR_ATOMIC_FETCH_AND_ADD))
    added->request.wr.atomic = {address, value, 0, key};
}

void wr_set_element(ibv_qp_ex* raw, std::uint32_t key, std::uint64_t address,
                    std::uint32_t length) noexcept {
  if (auto* const request = latest(raw)) {
    request->elements[0] = {address, length, key};
    request->request.num_sge = 1;
  }
}
void wr_set_elements(ibv_qp_ex* raw, std::size_t count, const ibv_sge* list) noexcept {
  auto* const request = latest(raw);
  if (request == nullptr) return;
  if (count > kMaxElements) {
    pair_of(raw).builder->failed = EINVAL;
    return;
  }
  std::copy_n(list, count, request->elements);
  request->request.num_sge = static_cast<int>(count);
}
void wr_set_inline_list(ibv_qp_ex* raw, std::size_t count, const ibv_data_buf* list) noexcept {
  auto* const request = latest(raw);
  if (request == nullptr) return;
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].length > sizeof request->inline_data - used) {
      pair_of(raw).builder->failed = EINVAL;
      return;
    }
    std::memcpy(request->inline_data + used, list[i].addr, list[i].length);
    used += list[i].length;
  }
  request->elements[0] = {reinterpret_cast<std::uintptr_t>(request->inline_data),
                          static_cast<std::uint32_t>(used), 0};
  request->request.num_sge = 1;
  request->request.send_flags |= IBV_SEND_INLINE;
}
void wr_set_inline(ibv_qp_ex* raw, void* address, std::size_t length) noexcept {
  const ibv_data_buf one{address, length};
  wr_set_inline_list(raw, 1, &one);
}
void wr_set_destination(ibv_qp_ex* raw, ibv_ah* handle, std::uint32_t number,
                        std::uint32_t key) noexcept {
  if (auto* const request = latest(raw)) request->request.wr.ud = {handle, number, key};
}

constexpr std::uint64_t kBuildable =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

void fill_builders(ibv_qp_ex& queue_pair) noexcept {
  queue_pair.wr_start = &wr_start;
  queue_pair.wr_complete = &wr_complete;
  queue_pair.wr_abort = &wr_abort;
  queue_pair.wr_send = &wr_send;
  queue_pair.wr_send_imm = &wr_send_immediate;
  queue_pair.wr_rdma_write = &wr_write;
  queue_pair.wr_rdma_write_imm = &wr_write_immediate;
  queue_pair.wr_rdma_read = &wr_read;
  queue_pair.wr_atomic_cmp_swp = &wr_compare_swap;
  queue_pair.wr_atomic_fetch_add = &wr_fetch_add;
  queue_pair.wr_set_sge = &wr_set_element;
  queue_pair.wr_set_sge_list = &wr_set_elements;
  queue_pair.wr_set_inline_data = &wr_set_inline;
  queue_pair.wr_set_inline_data_list = &wr_set_inline_list;
  queue_pair.wr_set_ud_addr = &wr_set_destination;
}

/// The operations that a queue pair of this type can build.
constexpr std::uint64_t buildable(ibv_qp_type type) noexcept {
  constexpr std::uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t kWrites = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  if (type == IBV_QPT_UD) return kSends;
  return type == IBV_QPT_UC ? kSends | kWrites : kBuildable;
}

/// Throws if there is no memory.
std::shared_ptr<Builder> make_builder(std::uint32_t capacity) {
  auto builder = std::make_shared<Builder>();
  builder->requests = std::make_unique_for_overwrite<Builder::Request[]>(capacity);
  builder->capacity = capacity;
  return builder;
}

ibv_qp* create_pair_unguarded(ibv_context* context, ibv_qp_init_attr_ex* init) {
  constexpr std::uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  const bool has_flags = (init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0;
  const bool wants_builders = (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if ((init->comp_mask & ~kKnown) != 0 || (init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 ||
      init->pd->context != context || (has_flags && init->create_flags != 0) ||
      (wants_builders && (init->send_ops_flags & ~buildable(init->qp_type)) != 0)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  ibv_qp_init_attr plain{.qp_context = init->qp_context,
                         .send_cq = init->send_cq,
                         .recv_cq = init->recv_cq,
                         .srq = init->srq,
                         .cap = init->cap,
                         .qp_type = init->qp_type,
                         .sq_sig_all = init->sq_sig_all};
  // First, because it may throw: nobody would destroy the queue pair.
  auto builder =
      wants_builders ? make_builder(std::clamp(init->cap.max_send_wr, 1u, kMaxRequests)) : nullptr;
  ibv_qp* const made = create_queue_pair(init->pd, &plain);
  if (made == nullptr) return nullptr;
  init->cap = plain.cap;
  if (!wants_builders) return made;
  QueuePair& queue_pair = QueuePair::of(made);
  queue_pair.builder = std::move(builder);
  fill_builders(queue_pair.extended);
  return made;
}

}  // namespace

void fill_extended(verbs_context& context) noexcept {
  context.create_cq_ex = kScripted<&create_queue_unguarded>;
  context.create_qp_ex = kScripted<&create_pair_unguarded>;
  context.query_rt_values = &query_values;
}

ibv_qp_ex* to_extended(ibv_qp* raw) noexcept {
  QueuePair& queue_pair = QueuePair::of(raw);
  return queue_pair.builder != nullptr ? &queue_pair.extended : nullptr;
}

}  // namespace verbatim::engine
