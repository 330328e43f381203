// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/responder/receive_ring.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <new>

#include "soft/completer/own_ring.hpp"
#include "soft/completer/shared_ring.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// Small messages ride in the ring; deep rings get less room for each, so that memory is bounded.
std::uint32_t eager_bytes_for(std::uint32_t capacity) noexcept {
  constexpr std::uint32_t kRingBytes = 256 * 1024;
  return std::clamp(kRingBytes / capacity, 256u, kEagerBytes);
}

/// Whether the next number's place is free. Several queue pairs return the receives of a shared
/// queue, and not in order; one whose sender died at the wrong moment never comes back. Such places
/// are passed over, or the queue would be full while it has room.
bool find_place(ReceiveRing& ring) noexcept {
  const std::uint32_t taken = ring.shared->taken.load(std::memory_order_acquire);
  for (;;) {
    // What senders have not come to yet must fit the ring, numbers that were passed over included.
    if (ring.posted - taken >= ring.capacity) return false;
    const std::uint32_t place = ring.posted & (ring.capacity - 1);
    if (!ring.own[place].in_use.load(std::memory_order_acquire)) return true;
    // Its sender is done with it: a receive counts as taken only when its memory was filled.
    ring.slots[place].count = kSkipped;
    ++ring.posted;
    ++ring.skipped;
    ring.last_skipped = ring.posted;
    ring.slots[place].sequence.store(ring.posted, std::memory_order_release);
  }
}

/// Puts one request into the ring. The owner's copy first, the shared one last: it publishes.
int post_one(ReceiveRing& ring, const ibv_recv_wr& request) noexcept {
  if (request.num_sge < 0 || static_cast<std::uint32_t>(request.num_sge) > ring.max_elements)
    return EINVAL;
  const std::uint32_t outstanding =
      ring.posted - ring.skipped - ring.returned.load(std::memory_order_acquire);
  if (outstanding >= ring.depth) return ENOMEM;
  // Where nothing was passed over lately, what is outstanding fits the ring.
  const bool in_use =
      ring.own[ring.posted & (ring.capacity - 1)].in_use.load(std::memory_order_acquire);
  if ((in_use || (ring.skipped != 0 && ring.posted - ring.last_skipped <= ring.capacity)) &&
      !find_place(ring)) [[unlikely]]
    return ENOMEM;
  const std::uint32_t number = ring.posted;
  OwnReceive& own = ring.own[number & (ring.capacity - 1)];
  ReceiveSlot& slot = ring.slots[number & (ring.capacity - 1)];
  own.id = request.wr_id;
  own.number = number;
  own.count = static_cast<std::uint32_t>(request.num_sge);
  std::uint64_t length = 0;
  for (std::uint32_t i = 0; i < own.count; ++i) {
    own.elements[i] = request.sg_list[i];
    slot.elements[i] = {own.elements[i].addr, own.elements[i].length, own.elements[i].lkey};
    length += own.elements[i].length;
  }
  own.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, UINT32_MAX));
  own.in_use.store(true, std::memory_order_release);
  slot.count = own.count;
  slot.length = own.length;
  ring.posted = number + 1;
  slot.sequence.store(number + 1, std::memory_order_release);
  ring.shared->posted.store(number + 1, std::memory_order_relaxed);
  return 0;
}

/// A requester found the ring empty and waits: tell it. A missed word costs it one RNR timer.
void wake_starved(Engine& engine, SharedReceives& shared) noexcept {
  if (shared.starved.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  const std::uint32_t tag = shared.starved.exchange(0);
  if (Peer* const peer = engine.peers().find(slot_of_tag(tag))) peer->ring_doorbell();
}

template <class Lock>
int post_all(Engine& engine, Lock& lock, ReceiveRing& ring, ibv_recv_wr* request,
             ibv_recv_wr** rejected) noexcept {
  int failed = 0;
  {
    const std::lock_guard guard{lock};
    for (; request != nullptr; request = request->next) {
      failed = post_one(ring, *request);
      if (failed != 0) break;
    }
  }
  if (failed != 0) *rejected = request;
  wake_starved(engine, *ring.shared);
  return failed;
}

}  // namespace

int make_ring(Engine& engine, SharedReceives& shared, ReceiveRing& ring, std::uint32_t depth,
              std::uint32_t max_elements, std::uint32_t spare) noexcept {
  ring.shared = &shared;
  ring.depth = depth;
  ring.max_elements = max_elements;
  ring.capacity = std::bit_ceil(std::max(depth + spare, 1u));
  ring.eager_bytes = eager_bytes_for(ring.capacity);
  const std::uint64_t slots = std::uint64_t{ring.capacity} * sizeof(ReceiveSlot);
  const std::uint64_t eager = std::uint64_t{ring.capacity} * ring.eager_bytes;
  ring.own.reset(new (std::nothrow) OwnReceive[ring.capacity]());
  if (!ring.own) return ENOMEM;
  const auto offset = engine.own().allocate(slots + eager);
  if (!offset) return ENOMEM;
  ring.offset = *offset;
  ring.bytes = slots + eager;
  ring.slots = engine.own().at<ReceiveSlot>(ring.offset);
  ring.eager = engine.own().at<std::byte>(ring.offset + slots);
  shared.capacity = ring.capacity;
  shared.eager_bytes = ring.eager_bytes;
  shared.slots = ring.offset;
  shared.eager = ring.offset + slots;
  shared.starved.store(0);
  shared.limit.store(0);
  shared.limit_reached.store(0);
  shared.posted.store(0);
  shared.lock.store(0);
  shared.taken.store(0);
  return 0;
}

void free_ring(Engine& engine, ReceiveRing& ring) noexcept {
  engine.own().free(ring.offset, ring.bytes);
  ring.bytes = 0;
}

void flush_receives(QueuePair& queue_pair) noexcept {
  if (queue_pair.shared_receives != nullptr) return;  // They belong to the shared queue.
  Engine& engine = *queue_pair.engine;
  absorb(engine, *queue_pair.receive_queue);
  const std::lock_guard lock{queue_pair.receive_lock};
  ReceiveRing& ring = queue_pair.receives;
  for (std::uint32_t number = ring.posted - ring.capacity; number != ring.posted; ++number) {
    OwnReceive& receive = ring.own[number & (ring.capacity - 1)];
    if (!receive.in_use || receive.number != number) continue;
    receive.in_use = false;
    push_own(*queue_pair.receive_queue, true, [&](OwnCompletion& own) {
      own.wc = {};
      own.wc.wr_id = receive.id;
      own.wc.status = IBV_WC_WR_FLUSH_ERR;
      own.wc.opcode = IBV_WC_RECV;
      own.wc.qp_num = queue_pair.raw.qp_num;
      own.queue_pair = &queue_pair;
      own.number = number;
      own.is_receive = true;
      own.is_rare = true;
    });
  }
  ring.shared->taken.store(ring.posted);
}

void clear_receives(QueuePair& queue_pair) noexcept {
  if (queue_pair.shared_receives != nullptr) return;
  const std::lock_guard lock{queue_pair.receive_lock};
  ReceiveRing& ring = queue_pair.receives;
  for (std::uint32_t i = 0; i < ring.capacity; ++i) ring.own[i].in_use = false;
  ring.returned.store(ring.posted - ring.skipped);
  ring.shared->taken.store(ring.posted);
}

Taking take_receive(Segment& segment, SharedReceives& receives, TakenReceive& taken) noexcept {
  const std::uint32_t capacity = receives.capacity;
  const std::uint32_t eager_bytes = receives.eager_bytes;
  const std::uint64_t slots = receives.slots;
  const std::uint64_t eager = receives.eager;
  // The peer's numbers decide where we look and write: inside its segment, and nowhere else.
  if (capacity == 0 || (capacity & (capacity - 1)) != 0 || slots < kRingsOffset ||
      slots >= kSegmentBytes || slots % alignof(ReceiveSlot) != 0 || eager < kRingsOffset ||
      eager >= kSegmentBytes ||
      std::uint64_t{capacity} * sizeof(ReceiveSlot) > kSegmentBytes - slots ||
      std::uint64_t{capacity} * eager_bytes > kSegmentBytes - eager)
    return Taking::broken;
  auto* const base = reinterpret_cast<std::byte*>(&segment);
  std::uint32_t number = receives.taken.load(std::memory_order_relaxed);
  const auto* const slots_begin = reinterpret_cast<const ReceiveSlot*>(base + slots);
  for (std::uint32_t skipped = 0;; ++skipped) {
    const ReceiveSlot& next = slots_begin[number & (capacity - 1)];
    if (next.sequence.load(std::memory_order_acquire) != number + 1) return Taking::none;
    if (next.count <= kMaxElements) [[likely]]
      break;
    if (next.count != kSkipped || skipped == capacity) return Taking::broken;
    receives.taken.store(++number, std::memory_order_relaxed);
  }
  const ReceiveSlot& slot = slots_begin[number & (capacity - 1)];
  // The next message needs the next slot, which was posted long before: it travels meanwhile.
  __builtin_prefetch(&slots_begin[(number + 1) & (capacity - 1)]);
  taken = {number, &slot, base + eager + std::size_t{number & (capacity - 1)} * eager_bytes,
           eager_bytes};
  return Taking::taken;
}

int post_receive(ibv_qp* raw, ibv_recv_wr* requests, ibv_recv_wr** rejected) noexcept {
  QueuePair& queue_pair = QueuePair::of(raw);
  if (queue_pair.state() == IBV_QPS_RESET || queue_pair.shared_receives != nullptr) {
    *rejected = requests;
    return EINVAL;
  }
  const int failed = post_all(*queue_pair.engine, queue_pair.receive_lock, queue_pair.receives,
                              requests, rejected);
  // In the error state a receive comes back at once.
  if (queue_pair.state() == IBV_QPS_ERR) flush_receives(queue_pair);
  return failed;
}

int post_shared_receive(ibv_srq* raw, ibv_recv_wr* requests, ibv_recv_wr** rejected) noexcept {
  auto& queue = *reinterpret_cast<SharedReceiveQueue*>(raw);
  return post_all(*queue.engine, queue.lock, queue.receives, requests, rejected);
}

}  // namespace verbatim::engine
