// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "null_objects.hpp"
#include "verbatim/provider/provider.hpp"

namespace verbatim::null {

void raise_completion(CompletionQueue& queue, bool solicited) {
  if (queue.armed.load(std::memory_order_relaxed) == Armed::solicited_only && !solicited) return;
  if (queue.armed.exchange(Armed::no) == Armed::no || queue.channel == nullptr) return;
  mine(queue.channel)->events.push(&queue);
}

namespace {

/// Indexed by ibv_wr_opcode.
constexpr std::array kSuccess{
    Outcome{IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE}, Outcome{IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE},
    Outcome{IBV_WC_SUCCESS, IBV_WC_SEND},       Outcome{IBV_WC_SUCCESS, IBV_WC_SEND},
    Outcome{IBV_WC_SUCCESS, IBV_WC_RDMA_READ},  Outcome{IBV_WC_SUCCESS, IBV_WC_COMP_SWAP},
    Outcome{IBV_WC_SUCCESS, IBV_WC_FETCH_ADD}};

[[gnu::always_inline]] inline void push(QueuePair& queue_pair, std::uint64_t wr_id,
                                        std::uint32_t byte_count, const Outcome& outcome) {
  CompletionQueue& queue = *mine(queue_pair.send_cq);
  const std::uint32_t head = queue.head.load(std::memory_order_relaxed);
  Entry& entry = queue.ring[head & queue.mask];
  entry.wr_id = wr_id;
  entry.owner = &queue_pair;
  entry.byte_count = byte_count;
  std::memcpy(&entry.outcome, &outcome, sizeof outcome);
  entry.posted = queue_pair.posted;
  queue.head.store(head + 1, std::memory_order_release);
}

bool full(const QueuePair& queue_pair) {
  const std::uint32_t retired = queue_pair.retired.load(std::memory_order_relaxed);
  return queue_pair.posted - retired >= queue_pair.cap.max_send_wr;
}

std::uint32_t sum(const ibv_send_wr& wr) {
  std::uint32_t bytes = 0;
  const ibv_sge* const end = wr.sg_list + wr.num_sge;
  for (const ibv_sge* each = wr.sg_list; each != end; ++each) bytes += each->length;
  return bytes;
}

/// For a queue pair that is not in RTS, or has to fail.
int post_broken(QueuePair& queue_pair, const ibv_send_wr& wr) {
  ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;
  if (queue_pair.state == IBV_QPS_RTS) {
    status = std::exchange(queue_pair.ordered, IBV_WC_SUCCESS);
    queue_pair.enter(IBV_QPS_ERR);
  } else if (queue_pair.state != IBV_QPS_ERR && queue_pair.state != IBV_QPS_SQE) {
    return EINVAL;
  }
  ++queue_pair.posted;
  push(queue_pair, wr.wr_id, 0, {status, IBV_WC_SEND});
  raise_completion(*mine(queue_pair.send_cq), true);
  return 0;
}

int post_one(QueuePair& queue_pair, const ibv_send_wr& wr) {
  if (full(queue_pair)) return ENOMEM;
  if (!queue_pair.plain) return post_broken(queue_pair, wr);
  if (static_cast<unsigned>(wr.num_sge) > queue_pair.cap.max_send_sge ||
      wr.opcode >= std::ssize(kSuccess))
    return EINVAL;
  const std::uint32_t bytes = sum(wr);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 && bytes > queue_pair.cap.max_inline_data)
    return EINVAL;
  ++queue_pair.posted;
  if ((wr.send_flags & IBV_SEND_SIGNALED) != 0 || queue_pair.signal_all)
    push(queue_pair, wr.wr_id, bytes, kSuccess[wr.opcode]);
  return 0;
}

[[gnu::noinline]] int post_list(QueuePair& queue_pair, ibv_send_wr* wr, ibv_send_wr** rejected) {
  int refused = 0;
  for (; wr != nullptr; wr = wr->next) {
    refused = post_one(queue_pair, *wr);
    if (refused != 0) {
      *rejected = wr;
      break;
    }
  }
  // There is no fence, so a thread that arms at this very moment may miss the event. Post and wait
  // from one thread, or arm before posting.
  raise_completion(*mine(queue_pair.send_cq), false);
  return refused;
}

/// The same as post_list(), written out for one signaled request. It must cost no more than a good
/// driver, because it is the base of all overhead figures.
int post_send(ibv_qp* raw, ibv_send_wr* wr, ibv_send_wr** rejected) {
  QueuePair& queue_pair = *mine(raw);
  const auto opcode = static_cast<unsigned>(wr->opcode);
  const auto elements = static_cast<unsigned>(wr->num_sge);
  if (!queue_pair.plain || wr->next != nullptr || wr->send_flags != IBV_SEND_SIGNALED ||
      opcode >= kSuccess.size() || elements > queue_pair.cap.max_send_sge || full(queue_pair) ||
      mine(queue_pair.send_cq)->armed.load(std::memory_order_relaxed) != Armed::no) [[unlikely]]
    return post_list(queue_pair, wr, rejected);
  const std::uint32_t bytes = sum(*wr);
  ++queue_pair.posted;
  push(queue_pair, wr->wr_id, bytes, kSuccess[opcode]);
  return 0;
}

[[gnu::cold, gnu::noinline]] int poll_injected(CompletionQueue& queue, int room, ibv_wc* out) {
  int count = 0;
  for (; count < room && !queue.injected.empty(); ++count) {
    out[count] = queue.injected.front();
    queue.injected.pop_front();
  }
  return count;
}

int poll_cq(ibv_cq* raw, int room, ibv_wc* out) {
  CompletionQueue& queue = *mine(raw);
  const std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
  const std::uint32_t ready = queue.head.load(std::memory_order_acquire) - tail;
  if (ready == 0) [[unlikely]]
    return poll_injected(queue, room, out);
  const std::uint32_t end = tail + std::min(ready, static_cast<std::uint32_t>(room));
  for (std::uint32_t at = tail; at != end; ++at, ++out) {
    const Entry& entry = queue.ring[at & queue.mask];
    // Writes the whole completion, as devices do.
    out->wr_id = entry.wr_id;
    std::memcpy(&out->status, &entry.outcome, sizeof entry.outcome);
    out->vendor_err = 0;
    out->byte_len = entry.byte_count;
    out->imm_data = 0;
    out->qp_num = entry.owner->qp_num;
    std::memset(&out->src_qp, 0, sizeof *out - offsetof(ibv_wc, src_qp));
    entry.owner->retired.store(entry.posted, std::memory_order_relaxed);
  }
  queue.tail.store(end, std::memory_order_release);
  return static_cast<int>(end - tail);
}

int req_notify_cq(ibv_cq* raw, int solicited_only) {
  mine(raw)->armed = solicited_only != 0 ? Armed::solicited_only : Armed::any;
  return 0;
}

int accept_receives(ibv_recv_wr* wr, ibv_recv_wr** rejected, std::uint32_t& posted,
                    std::uint32_t max_requests, std::uint32_t max_elements) {
  for (; wr != nullptr; wr = wr->next) {
    const bool too_long = static_cast<unsigned>(wr->num_sge) > max_elements;
    if (too_long || posted >= max_requests) {
      *rejected = wr;
      return too_long ? EINVAL : ENOMEM;
    }
    ++posted;
  }
  return 0;
}

int post_recv(ibv_qp* raw, ibv_recv_wr* wr, ibv_recv_wr** rejected) {
  QueuePair& queue_pair = *mine(raw);
  if (queue_pair.state == IBV_QPS_RESET || queue_pair.srq != nullptr) {
    *rejected = wr;
    return EINVAL;
  }
  return accept_receives(wr, rejected, queue_pair.receives, queue_pair.cap.max_recv_wr,
                         queue_pair.cap.max_recv_sge);
}

int post_srq_recv(ibv_srq* raw, ibv_recv_wr* wr, ibv_recv_wr** rejected) {
  SharedQueue& queue = *mine(raw);
  return accept_receives(wr, rejected, queue.posted, queue.attributes.max_wr,
                         queue.attributes.max_sge);
}

}  // namespace

void set_data_path(ibv_context_ops& ops) {
  ops.alloc_mw = detail::kMissing;
  ops.bind_mw = detail::kMissing;
  ops.dealloc_mw = detail::kMissing;
  ops.poll_cq = &poll_cq;
  ops.req_notify_cq = &req_notify_cq;
  ops.post_srq_recv = &post_srq_recv;
  ops.post_send = &post_send;
  ops.post_recv = &post_recv;
}

}  // namespace verbatim::null
