// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Completion queues: a private ring for what this process finished, a shared one for peers.
#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "soft/layout.hpp"
#include "soft/objects.hpp"

namespace verbatim::engine {

class Engine;

/// Puts the queue into its overrun state: an event, and its queue pairs break.
[[gnu::cold]] void overrun_queue(CompletionQueue& queue) noexcept;
/// After a completion of our own: wakes who sleeps on the queue's channel.
void notify_own(CompletionQueue& queue, bool solicited) noexcept;

/// Whether one more fits beside `count` of our own and what peers wrote.
[[nodiscard, gnu::cold]] bool has_room(const CompletionQueue& queue, std::uint32_t count) noexcept;

/// Puts a completion of our own into the queue, if that needs no waiting, no overrun and no event;
/// `fill` writes it where it stays.
template <class Fill>
[[nodiscard, gnu::always_inline]] inline bool try_push_own(CompletionQueue& queue,
                                                           const Fill& fill) noexcept {
  if (queue.has_channel || !queue.lock.try_lock()) return false;
  const std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
  const std::uint32_t count = tail - queue.head.load(std::memory_order_relaxed);
  // What peers wrote counts too; their line is looked at only when it could matter.
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

/// What a requester writes into its peer's queue.
struct RemoteCompletion {
  std::uint32_t queue_pair;  ///< The responder's index.
  std::uint32_t slot;        ///< The receive that it completes.
  std::uint32_t byte_count;
  std::uint32_t immediate;
  std::uint32_t source;
  std::uint8_t opcode;
  std::uint8_t flags;
  std::uint8_t status;
  Payload payload;
  bool solicited;
  std::span<const std::byte> data;  ///< For Payload::in_entry.
};
/// False: the queue is full or its lock cannot be had.
[[nodiscard]] bool push_remote(Engine& engine, Peer& peer, std::uint32_t queue,
                               const RemoteCompletion& completion) noexcept;

/// Moves what peers wrote into the private ring, in order: before flushes are added behind it.
void absorb(Engine& engine, CompletionQueue& queue) noexcept;
/// Removes the completions of a queue pair that is going away.
void purge(Engine& engine, CompletionQueue& queue, const QueuePair& gone) noexcept;

// Verbs.
int poll(ibv_cq* queue, int count, ibv_wc* completions) noexcept;
int arm(ibv_cq* queue, int solicited_only) noexcept;
ibv_cq* create_completion_queue(ibv_context* context, int depth, void* user,
                                ibv_comp_channel* channel, int vector) noexcept;
int resize_completion_queue(ibv_cq* queue, int depth) noexcept;
int destroy_completion_queue(ibv_cq* queue) noexcept;
ibv_comp_channel* create_channel(ibv_context* context) noexcept;
int destroy_channel(ibv_comp_channel* channel) noexcept;
int get_completion_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) noexcept;
void acknowledge_completion_events(ibv_cq* queue, unsigned count) noexcept;

}  // namespace verbatim::engine
