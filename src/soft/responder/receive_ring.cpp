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

/// Whether the next number's place is free. Several queue pairs return the receives of a shared
/// queue, and not in order. Without skipping the places that are still in use, the queue would be
/// full while it has room.
bool find_place(ReceiveRing& ring) noexcept {
  const std::uint32_t taken = ring.shared->taken.load(std::memory_order_acquire);
  for (;;) {
    // All numbers that senders have not reached must fit the ring, including the skipped ones.
    if (ring.posted - taken >= ring.capacity) return false;
    if (!ring.own_at(ring.posted).in_use.load(std::memory_order_acquire)) return true;
    // The sender of that receive may still be writing, but it no longer looks at the slot.
    ReceiveSlot& slot = ring.slot(ring.posted);
    slot.count = kSkipped;
    ++ring.posted;
    ++ring.skipped;
    ring.last_skipped = ring.posted;
    slot.sequence.store(ring.posted, std::memory_order_release);
  }
}

/// Puts one request into the ring. Writes the owner's copy first and the shared copy last, because
/// the shared copy publishes the receive.
int post_one(ReceiveRing& ring, const ibv_recv_wr& request) noexcept {
  if (request.num_sge < 0 || static_cast<std::uint32_t>(request.num_sge) > ring.max_elements)
    return EINVAL;
  const std::uint32_t outstanding =
      ring.posted - ring.skipped - ring.returned.load(std::memory_order_acquire);
  if (outstanding >= ring.depth) return ENOMEM;
  // If no place was skipped lately, the outstanding receives fit the ring.
  const bool in_use = ring.own_at(ring.posted).in_use.load(std::memory_order_acquire);
  if ((in_use || (ring.skipped != 0 && ring.posted - ring.last_skipped <= ring.capacity)) &&
      !find_place(ring)) [[unlikely]]
    return ENOMEM;
  const std::uint32_t number = ring.posted;
  OwnReceive& own = ring.own_at(number);
  ReceiveSlot& slot = ring.slot(number);
  auto* const elements = const_cast<SharedElement*>(elements_of(slot));
  own.id = request.wr_id;
  own.number = number;
  own.count = static_cast<std::uint32_t>(request.num_sge);
  std::uint64_t length = 0;
  for (std::uint32_t i = 0; i < own.count; ++i) {
    own.elements[i] = request.sg_list[i];
    elements[i] = {own.elements[i].addr, own.elements[i].length, own.elements[i].lkey};
    length += own.elements[i].length;
  }
  own.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, UINT32_MAX));
  own.in_use.store(true, std::memory_order_release);
  slot.count = own.count;
  slot.length = own.length;
  slot.taker.store(0, std::memory_order_relaxed);
  ring.posted = number + 1;
  slot.sequence.store(number + 1, std::memory_order_release);
  ring.shared->posted.store(number + 1, std::memory_order_relaxed);
  return 0;
}

/// Wakes a requester that found the ring empty and waits. If it misses the wake-up, it loses one
/// RNR timer.
void wake_starved(Engine& engine, SharedReceives& shared) noexcept {
  if (shared.starved.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  const std::uint32_t tag = shared.starved.exchange(0);
  if (const auto peer = engine.peers().find(slot_of_tag(tag))) peer->ring_doorbell();
}

/// Calls `use` for each posted receive, in the order in which they were posted.
template <class Use>
void for_each_posted(const ReceiveRing& ring, const Use& use) noexcept {
  for (std::uint32_t number = ring.posted - ring.capacity; number != ring.posted; ++number) {
    OwnReceive& receive = ring.own_at(number);
    if (receive.in_use && receive.number == number) use(receive);
  }
}

}  // namespace

int post_receives(Engine& engine, ReceiveLock& lock, ReceiveRing& ring, ibv_recv_wr* request,
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

int make_ring(Engine& engine, SharedReceives& shared, ReceiveRing& ring, std::uint32_t depth,
              std::uint32_t max_elements, std::uint32_t spare) noexcept {
  ring.shared = &shared;
  ring.depth = depth;
  ring.max_elements = max_elements;
  ring.stride = slot_stride(max_elements);
  ring.capacity = std::bit_ceil(std::max(depth + spare, 1u));
  ring.own.reset(new (std::nothrow) OwnReceive[ring.capacity]());
  if (!ring.own) return ENOMEM;
  const std::uint64_t bytes = std::uint64_t{ring.capacity} * ring.stride;
  const auto offset = engine.own().allocate(bytes);
  if (!offset) return errno_of(offset.error());
  ring.offset = *offset;
  ring.bytes = bytes;
  ring.slots = engine.own().at<std::byte>(ring.offset);
  shared.capacity = ring.capacity;
  shared.max_elements = max_elements;
  shared.slots = ring.offset;
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

void flush_receives(Engine& engine, ReceiveLock& mutex, const ReceiveSide& side) noexcept {
  if (side.ring->is_shared) return;  // They belong to the shared queue.
  settle(engine, *side.queue);
  const std::lock_guard lock{mutex};
  for_each_posted(*side.ring, [&](OwnReceive& receive) {
    receive.in_use = false;
    push_own(*side.queue, true, [&](OwnCompletion& own) {
      own.wc = {};
      own.wc.wr_id = receive.id;
      own.wc.status = IBV_WC_WR_FLUSH_ERR;
      own.wc.opcode = IBV_WC_RECV;
      own.wc.qp_num = side.number;
      own.queue_pair = side.queue_pair;
      own.ring = side.ring;
      own.number = receive.number;
      own.is_receive = true;
      own.is_rare = true;
      ++side.queue->own_receives;
    });
  });
  side.ring->shared->taken.store(side.ring->posted);
}

void clear_receives(ReceiveLock& mutex, ReceiveRing& ring) noexcept {
  const std::lock_guard lock{mutex};
  for (std::uint32_t i = 0; i < ring.capacity; ++i) ring.own[i].in_use = false;
  ring.returned.store(ring.posted - ring.skipped);
  ring.shared->taken.store(ring.posted);
}

void offer_again(ReceiveLock& mutex, ReceiveRing& ring, std::uint32_t queue_pair) noexcept {
  const std::lock_guard lock{mutex};
  const std::uint32_t taken = ring.shared->taken.load(std::memory_order_acquire);
  for_each_posted(ring, [&](OwnReceive& receive) {
    const bool is_taken = static_cast<std::int32_t>(taken - receive.number) > 0;
    if (!is_taken || ring.slot(receive.number).taker.load() != queue_pair + 1) return;
    // Posted under a new number, because senders have passed the old one.
    ibv_sge elements[kMaxElements];
    std::copy_n(receive.elements, receive.count, elements);
    ibv_recv_wr request{.wr_id = receive.id,
                        .next = nullptr,
                        .sg_list = elements,
                        .num_sge = static_cast<int>(receive.count)};
    receive.in_use = false;
    ring.returned.fetch_add(1);
    static_cast<void>(post_one(ring, request));  // One was just returned, so there is room.
  });
}

bool uses_key(ReceiveLock& mutex, const ReceiveRing& ring, std::uint32_t key) noexcept {
  const std::lock_guard lock{mutex};
  bool uses = false;
  for_each_posted(ring, [&](const OwnReceive& receive) {
    for (std::uint32_t i = 0; i < receive.count; ++i) uses |= receive.elements[i].lkey == key;
  });
  return uses;
}

bool look_at(Segment& segment, SharedQueuePair& queue_pair, RingView& view) noexcept {
  const std::uint32_t shared = queue_pair.shared_receives;
  if (shared > kSharedQueues) return false;
  SharedReceives& receives =
      shared == 0 ? queue_pair.receives : segment.shared_receives[shared - 1];
  const std::uint32_t capacity = receives.capacity;
  const std::uint32_t max_elements = receives.max_elements;
  const std::uint64_t slots = receives.slots;
  if (max_elements > kMaxElements) return false;
  const std::uint32_t stride = slot_stride(max_elements);
  // The peer's numbers decide where we read and write, so they must stay inside its segment.
  if (capacity == 0 || (capacity & (capacity - 1)) != 0 || slots < kRingsOffset ||
      slots >= kSegmentBytes || slots % alignof(SharedElement) != 0 ||
      std::uint64_t{capacity} * stride > kSegmentBytes - slots)
    return false;
  view = {.receives = &receives,
          .slots = reinterpret_cast<std::byte*>(&segment) + slots,
          .mask = capacity - 1,
          .stride = stride,
          .max_elements = max_elements,
          .is_shared = shared != 0};
  return true;
}

Found find_receive(const RingView& view, std::uint32_t& number) noexcept {
  SharedReceives& receives = *view.receives;
  number = receives.taken.load(std::memory_order_relaxed);
  for (std::uint32_t skipped = 0;; ++skipped) {
    const ReceiveSlot& next = view.slot(number);
    if (next.sequence.load(std::memory_order_acquire) != number + 1) return Found::none;
    if (next.count <= view.max_elements) [[likely]]
      break;
    if (next.count != kSkipped || skipped > view.mask) return Found::broken;
    receives.taken.store(++number, std::memory_order_relaxed);
  }
  // A later message needs this later slot, which was posted long ago. Fetch it now.
  __builtin_prefetch(&view.slot(number + kAhead));
  return Found::yes;
}

}  // namespace verbatim::engine
