// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Receive requests: posted by the owner, taken by requesters.
///
/// Owns the shared receive queues, as their process keeps them. Threads: those of the owner that
/// post or flush, and requesters of any process. The owner posts under the rank `receives`. The one
/// requester inside takes from a queue pair's own ring. From a shared ring any number take at the
/// same time, without a lock: a lock whose holder is stopped would stop the others. Posting and
/// taking are hot.
#include <infiniband/verbs.h>

#include <cstdint>

#include "soft/completer/completion_queue.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/lock_rank.hpp"
#include "soft/shared/spin.hpp"

namespace verbatim::engine {

class Engine;

using ReceiveLock = Ranked<LockRank::receives, SpinLock>;

struct SharedReceiveQueue {
  ibv_srq raw;
  Engine* engine;
  std::uint32_t index;
  ReceiveLock lock;
  ReceiveRing receives;
  std::atomic<std::uint32_t> users{0};
};

/// Allocates the ring of a queue pair or shared receive queue. Returns an errno, or 0. `spare`:
/// places for numbers that may have to be skipped.
[[nodiscard]] int make_ring(Engine& engine, SharedReceives& shared, ReceiveRing& ring,
                            std::uint32_t depth, std::uint32_t max_elements,
                            std::uint32_t spare = 0) noexcept;
void free_ring(Engine& engine, ReceiveRing& ring) noexcept;

/// Posts requests; an errno, or 0.
int post_receives(Engine& engine, ReceiveLock& lock, ReceiveRing& ring, ibv_recv_wr* request,
                  ibv_recv_wr** rejected) noexcept;

/// Completes every receive of the ring that no peer has used as flushed, oldest first.
void flush_receives(Engine& engine, ReceiveLock& lock, const ReceiveSide& side) noexcept;
/// Forgets all receives: for RESET.
void clear_receives(ReceiveLock& lock, ReceiveRing& ring) noexcept;
/// Makes receives available again that were taken and never completed; call settle() first.
/// `taker`: index + 1 of the queue pair that they were taken for, if the requester died; or
/// kGivenBack. `polled`: the completion queue of a ring that is not shared.
void offer_again(ReceiveLock& lock, ReceiveRing& ring, std::uint32_t taker,
                 CompletionQueue* polled = nullptr) noexcept;
/// Whether a receive that is still posted uses memory with this key.
[[nodiscard]] bool uses_key(ReceiveLock& lock, const ReceiveRing& ring, std::uint32_t key) noexcept;

/// A peer's ring after its numbers were checked, because they decide where we look and write.
struct RingView {
  SharedReceives* receives = nullptr;
  std::byte* slots = nullptr;
  std::uint32_t mask = 0;
  std::uint32_t stride = 0;
  std::uint32_t max_elements = 0;
  bool is_shared = false;  ///< It belongs to a shared receive queue.

  [[nodiscard]] ReceiveSlot& slot(std::uint32_t number) const noexcept {
    return *reinterpret_cast<ReceiveSlot*>(slots + std::size_t{number & mask} * stride);
  }
};
/// False: its numbers make no sense.
[[nodiscard]] bool look_at(Segment& segment, SharedQueuePair& queue_pair, RingView& view) noexcept;

/// The elements of a receive follow it.
[[nodiscard]] inline const SharedElement* elements_of(const ReceiveSlot& slot) noexcept {
  return reinterpret_cast<const SharedElement*>(&slot + 1);
}

/// How many places ahead of its own message a sender prefetches: a cache line takes about as long
/// to come from the other core as two messages.
inline constexpr std::uint32_t kAhead = 4;

/// A receive that a requester took. A copy, because the slot may be reused after that.
struct TakenReceive {
  std::uint32_t number = 0;
  std::uint32_t length = 0;
  std::uint32_t count = 0;
  SharedElement elements[kMaxElements];
};
/// Copies what a slot says now.
void copy_receive(const RingView& view, std::uint32_t number, TakenReceive& taken) noexcept;

enum class Found : std::uint8_t { yes, none, broken };
/// The next receive of a queue pair's own ring. The caller is the only one who takes from it, and
/// moves `taken` on when the receive is used.
[[nodiscard]] Found find_receive(const RingView& view, TakenReceive& taken) noexcept;
/// Takes the next receive of a shared ring. `taker`: see slot_state().
[[nodiscard]] Found take_shared_receive(const RingView& view, std::uint32_t taker,
                                        TakenReceive& taken) noexcept;
/// If the receive was taken by `taker`, marks it as given back.
void offer_back(ReceiveSlot& slot, std::uint32_t taker) noexcept;

}  // namespace verbatim::engine
