// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The private ring of a completion queue: what this process finished itself.
///
/// Owns nothing: the ring belongs to CompletionQueue. Posting and flushing threads push, polling
/// threads take (poll.hpp), all under `completer`; posting holds `queue_pair` or `receives` before.
/// Hot; an overrun and an event are not.
#include <cstdint>
#include <mutex>

#include "soft/completer/completion_queue.hpp"

namespace verbatim::engine {

/// Puts the queue into its overrun state. Its owner's thread raises the event and breaks the queue
/// pairs (Engine::answer_attention).
[[gnu::cold]] void overrun_queue(CompletionQueue& queue) noexcept;
/// After a completion of our own: wakes the sleeper on the queue's channel.
void notify_own(CompletionQueue& queue, bool solicited) noexcept;

/// Whether one more fits beside `count` of our own and those of peers.
[[nodiscard, gnu::cold]] bool has_room(const CompletionQueue& queue, std::uint32_t count) noexcept;

/// Puts a completion of our own into the queue, if that needs no wait, no overrun and no event;
/// `fill` writes it in place.
template <class Fill>
[[nodiscard, gnu::always_inline]] inline bool try_push_own(CompletionQueue& queue,
                                                           const Fill& fill) noexcept {
  if (queue.has_channel || !queue.lock.try_lock()) return false;
  const std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
  const std::uint32_t count = tail - queue.head.load(std::memory_order_relaxed);
  // Those of peers count too; their cache line is read only if it could matter.
  if (count * 2 >= queue.depth) [[unlikely]] {
    queue.lock.unlock();
    return false;
  }
  fill(queue.ring[tail & (queue.capacity - 1)]);
  queue.tail.store(tail + 1, std::memory_order_release);
  queue.shared->own_count.store(count + 1, std::memory_order_relaxed);
  queue.lock.unlock();
  return true;
}

/// Puts a completion of our own into the queue. Overruns the queue if it is full.
template <class Fill>
void push_own(CompletionQueue& queue, bool solicited, const Fill& fill) noexcept {
  {
    const std::lock_guard lock{queue.lock};
    const std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
    const std::uint32_t count = tail - queue.head.load(std::memory_order_relaxed);
    if (count * 2 >= queue.depth && !has_room(queue, count)) return overrun_queue(queue);
    fill(queue.ring[tail & (queue.capacity - 1)]);
    queue.tail.store(tail + 1, std::memory_order_release);
    queue.shared->own_count.store(count + 1, std::memory_order_relaxed);
  }
  if (queue.has_channel) notify_own(queue, solicited);
}

}  // namespace verbatim::engine
