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

/// Writes what a late requester may read at the same time: it finds out that the slot has changed.
template <class T>
void store(T& shared, T value) noexcept {
  std::atomic_ref{shared}.store(value, std::memory_order_relaxed);
}

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
    store(slot.count, kSkipped);
    store(slot.length, ++ring.skipped);
    // Keeps the name of that sender; it may give the receive back at this moment.
    std::uint64_t state = slot.state.load(std::memory_order_relaxed);
    while (!slot.state.compare_exchange_weak(state, slot_state(ring.posted, taker_of(state)),
                                             std::memory_order_release)) {
    }
    ring.last_skipped = ++ring.posted;
  }
}

/// Puts one request into the ring. Writes the owner's copy first and the shared copy last, because
/// the shared copy publishes the receive.
int post_one(ReceiveRing& ring, const ibv_recv_wr& request) noexcept {
  // As an unsigned number, a negative count is too large.
  if (static_cast<std::uint32_t>(request.num_sge) > ring.max_elements) return EINVAL;
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
    store(elements[i].address, own.elements[i].addr);
    store(elements[i].length, own.elements[i].length);
    store(elements[i].key, own.elements[i].lkey);
    length += own.elements[i].length;
  }
  own.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, UINT32_MAX));
  own.in_use.store(true, std::memory_order_release);
  store(slot.count, own.count);
  store(slot.length, own.length);
  ring.posted = number + 1;
  slot.state.store(slot_state(number, 0), std::memory_order_release);
  ring.shared->posted.store(number + 1 - ring.skipped, std::memory_order_relaxed);
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

/// Calls `use` for each posted receive, in the order in which they were posted. One that was taken
/// long ago, and whose place was skipped since, comes in the order of its place.
template <class Use>
void for_each_posted(const ReceiveRing& ring, const Use& use) noexcept {
  const std::uint32_t end = ring.posted;  // `use` may post.
  for (std::uint32_t number = end - ring.capacity; number != end; ++number)
    if (OwnReceive& receive = ring.own_at(number); receive.in_use) use(receive);
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
  shared.given_back.store(0);
  shared.posted.store(0);
  shared.lock.store(0);
  shared.taken.store(0);
  shared.passed.store(0);
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

void offer_again(ReceiveLock& mutex, ReceiveRing& ring, std::uint32_t taker,
                 CompletionQueue* polled) noexcept {
  const std::lock_guard lock{mutex};
  for_each_posted(ring, [&](OwnReceive& receive) {
    if (taker_of(ring.slot(receive.number).state.load()) != taker) return;
    // Whoever took it may have died before moving on.
    std::uint32_t number = receive.number;
    ring.shared->taken.compare_exchange_strong(number, number + 1);
    // Posted under a new number, because senders have passed the old one.
    ibv_sge elements[kMaxElements];
    std::copy_n(receive.elements, receive.count, elements);
    ibv_recv_wr request{.wr_id = receive.id,
                        .next = nullptr,
                        .sg_list = elements,
                        .num_sge = static_cast<int>(receive.count)};
    receive.in_use = false;
    if (polled != nullptr) {
      const std::lock_guard polling{polled->lock};
      retire_receive(ring);
    } else {
      retire_receive(ring);
    }
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

void copy_receive(const RingView& view, std::uint32_t number, TakenReceive& taken) noexcept {
  const ReceiveSlot& slot = view.slot(number);
  taken.number = number;
  taken.length = once(slot.length);
  taken.count = std::min(once(slot.count), view.max_elements);  // Peers can change it.
  const SharedElement* const elements = elements_of(slot);
  for (std::uint32_t i = 0; i < taken.count; ++i)
    taken.elements[i] = {once(elements[i].address), once(elements[i].length),
                         once(elements[i].key)};
}

namespace {

/// Like find_receive(), where numbers were skipped.
[[gnu::cold]] Found find_behind_skipped(const RingView& view, TakenReceive& taken) noexcept {
  std::uint32_t number = view.receives->taken.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i <= view.mask; ++i) {
    const ReceiveSlot& next = view.slot(number);
    if (!is_posted(next.state.load(std::memory_order_acquire), number)) return Found::none;
    const std::uint32_t count = once(next.count);
    if (count <= view.max_elements) {
      copy_receive(view, number, taken);
      return Found::yes;
    }
    if (count != kSkipped) return Found::broken;
    view.receives->taken.store(++number, std::memory_order_relaxed);
  }
  return Found::broken;
}

}  // namespace

Found find_receive(const RingView& view, TakenReceive& taken) noexcept {
  const std::uint32_t number = view.receives->taken.load(std::memory_order_relaxed);
  const ReceiveSlot& next = view.slot(number);
  if (!is_posted(next.state.load(std::memory_order_acquire), number)) return Found::none;
  if (once(next.count) > view.max_elements) [[unlikely]]
    return find_behind_skipped(view, taken);
  copy_receive(view, number, taken);
  // A later message needs this later slot, which was posted long ago. Fetch it now.
  __builtin_prefetch(&view.slot(number + kAhead));
  return Found::yes;
}

Found take_shared_receive(const RingView& view, std::uint32_t taker, TakenReceive& taken) noexcept {
  SharedReceives& receives = *view.receives;
  const auto move_on = [&receives](std::uint32_t number) {
    receives.taken.compare_exchange_strong(number, number + 1);
  };
  // Each round moves on, or another requester has. A hostile owner could make it endless.
  const std::uint64_t most = 4 * (std::uint64_t{view.mask} + 1) + 1000;
  for (std::uint64_t round = 0; round < most; ++round) {
    const std::uint32_t number = receives.taken.load();
    ReceiveSlot& slot = view.slot(number);
    std::uint64_t state = slot.state.load(std::memory_order_acquire);
    if (!is_posted(state, number)) {
      if (receives.taken.load() == number) return Found::none;
      continue;
    }
    const std::uint32_t count = once(slot.count);
    if (count == kSkipped) {
      const std::uint32_t passed = once(slot.length);
      move_on(number);
      // Another requester may be further on already.
      std::uint32_t known = receives.passed.load(std::memory_order_relaxed);
      while (static_cast<std::int32_t>(passed - known) > 0 &&
             !receives.passed.compare_exchange_weak(known, passed)) {
      }
      continue;
    }
    if (taker_of(state) != 0) {  // By somebody who was stopped or killed before moving on.
      move_on(number);
      continue;
    }
    if (count > view.max_elements) return Found::broken;
    copy_receive(view, number, taken);
    if (!slot.state.compare_exchange_strong(state, slot_state(number, taker))) continue;
    move_on(number);
    __builtin_prefetch(&view.slot(number + kAhead));
    return Found::yes;
  }
  return Found::broken;
}

void offer_back(ReceiveSlot& slot, std::uint32_t taker) noexcept {
  std::uint64_t state = slot.state.load();
  while (taker_of(state) == taker &&
         !slot.state.compare_exchange_weak(
             state, std::uint64_t{kGivenBack} << 32 | static_cast<std::uint32_t>(state))) {
  }
}

}  // namespace verbatim::engine
