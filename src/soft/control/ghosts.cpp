// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/ghosts.hpp"

#include <mutex>
#include <utility>

#include "soft/control/late_rings.hpp"
#include "soft/memory/access_guard.hpp"
#include "soft/responder/receive_ring.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// Finds a ghost that uses this completion queue. The caller holds the mutex.
QueuePair* find_visitor(Engine& engine, const CompletionQueue& queue) noexcept {
  QueuePair* each = engine.ghosts;
  while (each != nullptr && each->receive_completions != &queue) each = each->next_waiting;
  return each;
}

void free_ghost(Engine& engine, QueuePair& ghost) noexcept {
  // Another ghost's visitor may still write to the completion queue. Then that ghost keeps it.
  if (CompletionQueue* queue = ghost.ghost_queue) {
    {
      const std::lock_guard lock{engine.ghosts_mutex};
      if (QueuePair* const other = find_visitor(engine, *queue))
        other->ghost_queue = std::exchange(queue, nullptr);
    }
    if (queue != nullptr) free_completion_queue(engine, *queue);
  }
  if (SharedReceiveQueue* const shared = ghost.shared_receives) {
    offer_again(shared->lock, shared->receives, ghost.index + 1);
    shared->users.fetch_sub(1);
  } else {
    free_ring(engine, ghost.receives);
  }
  engine.receive_sides.remove(ghost.index);
  engine.ghost_count.fetch_sub(1);
  delete &ghost;
}

/// Removes from the list a ghost that no requester is inside any more. Returns nullptr if there is
/// none.
QueuePair* take_laid(Engine& engine) noexcept {
  const std::lock_guard lock{engine.ghosts_mutex};
  for (QueuePair** at = &engine.ghosts; *at != nullptr; at = &(*at)->next_waiting) {
    if (!is_left(engine, *(*at)->shared)) continue;
    QueuePair* const laid = *at;
    *at = laid->next_waiting;
    return laid;
  }
  return nullptr;
}

}  // namespace

void add_ghost(Engine& engine, QueuePair& queue_pair) noexcept {
  if (queue_pair.shared_receives != nullptr) queue_pair.shared_receives->users.fetch_add(1);
  const std::lock_guard lock{engine.ghosts_mutex};
  queue_pair.next_waiting = engine.ghosts;
  engine.ghosts = &queue_pair;
  engine.ghost_count.fetch_add(1);
}

bool keep_for_ghosts(Engine& engine, CompletionQueue& queue) noexcept {
  if (engine.ghost_count.load() == 0) return false;
  const std::lock_guard lock{engine.ghosts_mutex};
  QueuePair* const visitor = find_visitor(engine, queue);
  if (visitor != nullptr) visitor->ghost_queue = &queue;
  return visitor != nullptr;
}

void lay_ghosts(Engine& engine) noexcept {
  if (engine.ghost_count.load() == 0) return;
  while (QueuePair* const laid = take_laid(engine)) free_ghost(engine, *laid);
}

void free_completion_queue(Engine& engine, CompletionQueue& queue) noexcept {
  engine.completion_queues.remove(queue.index);
  free_late_rings(engine, queue);
  engine.own().free(queue.ring_offset, queue.ring_bytes);
  delete &queue;
}

}  // namespace verbatim::engine
