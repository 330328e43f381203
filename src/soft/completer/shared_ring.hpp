// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The shared ring of a completion queue: what requesters of any process write into it.
///
/// Owns nothing: the ring and its arena are in the owner's segment. Producers append under the lock
/// of their line in shared memory (rank `completions`), from inside the responder's queue pair. The
/// owner takes under CompletionQueue::lock (rank `completer`), in threads that poll and threads
/// that settle. Hot.
///
/// A small payload rides along, in the entry or in the arena. It is placed in the receive's memory
/// when the entry is taken: by a poll, or by settle(). Code that ends a registration, or must see
/// the memory as it is, calls settle() first.
#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <span>

#include "soft/completer/completion_queue.hpp"
#include "soft/memory/pieces.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/peer.hpp"

namespace verbatim::engine {

class Engine;

/// What a queue is armed for. `telling`: for nothing; a producer writes the event at this moment.
enum Armed : std::uint32_t { no, solicited_only, any, telling };

/// Wakes the sleeper on the queue's channel, if the queue is armed for this completion. `Dekker`:
/// the owner arms, then looks at the ring; we publish, then look whether it is armed. If we are
/// killed or stopped before the event is written, the owner's helper writes it (poll.hpp).
void notify(Engine& engine, Peer& owner, SharedCompletionQueue& queue, std::uint32_t index,
            bool solicited) noexcept;

/// Puts the event of a queue into its channel. False: we cannot, but its owner can, now or when the
/// channel has room.
[[nodiscard]] bool write_event(Engine& engine, Peer& owner, SharedCompletionQueue& queue,
                               std::uint32_t index) noexcept;

/// Reads a number that a peer may change at any time: only once, so that the checked value is used.
template <class T>
[[nodiscard]] T once(const T& shared) noexcept {
  return std::atomic_ref{const_cast<T&>(shared)}.load(std::memory_order_relaxed);
}

/// A peer's queue after its numbers were checked, because they decide where we write.
struct QueueView {
  SharedCompletionQueue* queue = nullptr;
  ProducerLine* line = nullptr;
  CompletionEntry* entries = nullptr;
  std::byte* arena = nullptr;
  std::uint64_t ring = 0;  ///< As it was checked: a queue may get another ring.
  std::uint32_t capacity = 0;
  std::uint32_t arena_bytes = 0;

  [[nodiscard]] CompletionEntry& entry(std::uint32_t number) const noexcept {
    return entries[number & (capacity - 1)];
  }
  /// Whether the queue has this ring. All the rest of the view follows from the two numbers. Only
  /// under the lock of the line can the queue not get another ring at this moment.
  [[nodiscard]] bool is_current() const noexcept {
    return ring == queue->ring.load(std::memory_order_relaxed) && capacity == once(queue->capacity);
  }
};

/// False: its numbers make no sense. They lead into the peer's segment, and nowhere else.
[[nodiscard]] bool look_at(Peer& peer, SharedCompletionQueue& queue, QueueView& view) noexcept;

/// What a requester writes into its peer's queue.
struct RemoteCompletion {
  EntryHead head{};
  bool solicited = false;
  const Pieces* data = nullptr;            ///< Unless it is placed: what rides along,
  std::span<const std::byte> header = {};  ///< after this.
};
enum class Pushed : std::uint8_t {
  yes,
  no_arena,  ///< There is no room for the payload: place it, and push again.
  full,      ///< The queue is full, and now in error.
  not_now,   ///< Its lock is not available.
};
/// `index` is the peer's. `view` is what was known of it; it is updated.
[[nodiscard]] Pushed push_remote(Engine& engine, Peer& peer, std::uint32_t index, QueueView& view,
                                 const RemoteCompletion& completion) noexcept;

/// Whether one more fits after `tail`. The lock of the line is held.
[[nodiscard, gnu::always_inline]] inline bool has_room(const QueueView& view,
                                                       std::uint32_t tail) noexcept {
  const SharedCompletionQueue& queue = *view.queue;
  ProducerLine& line = *view.line;
  if (tail - line.head_seen + 1 < queue.depth / 2) [[likely]]
    return true;
  line.head_seen = queue.head.load(std::memory_order_acquire);
  return tail - line.head_seen + queue.own_count.load(std::memory_order_relaxed) < queue.depth;
}
/// Shows the owner an entry whose payload is in place. The lock of the line is held.
[[gnu::always_inline]] inline void publish(const QueueView& view, std::uint32_t tail,
                                           const EntryHead& head) noexcept {
  CompletionEntry& entry = view.entry(tail);
  entry.head = head;
  entry.sequence.store(tail + 1, std::memory_order_release);
  // Not before: while we are stopped in between, everybody would wait for a payload that the owner
  // cannot find.
  if (head.payload != Payload::placed)
    view.line->riding_end.store(tail + 1, std::memory_order_relaxed);
  view.line->tail.store(tail + 1, std::memory_order_relaxed);
}

/// Turns up to `count` entries that peers wrote into completions and places their payloads. Trusts
/// nothing in them: skips an entry that makes no sense. Returns the count. The lock is held.
[[nodiscard]] int take_shared(Engine& engine, CompletionQueue& queue, int count,
                              ibv_wc* completions) noexcept;
/// The program has seen it: the receive's place in its queue is free again.
inline void retire_receive(ReceiveRing& ring) noexcept {
  if (ring.is_shared) {  // Several completion queues share it: an atomic.
    ring.returned.fetch_add(1, std::memory_order_release);
    return;
  }
  ring.returned.store(ring.returned.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

/// Moves what peers wrote into the private ring, in order: payloads are placed, and later additions
/// come after them. Engine::settle() does this for all queues of the process: after it no payload
/// is in flight to memory that the caller has taken away from requesters before.
void settle(Engine& engine, CompletionQueue& queue) noexcept;
/// The same; the caller holds the lock.
void settle_locked(Engine& engine, CompletionQueue& queue) noexcept;
/// Removes the completions of a queue pair that is going away; their payloads are placed.
void purge(Engine& engine, CompletionQueue& queue, const ReceiveSide& gone) noexcept;

}  // namespace verbatim::engine
