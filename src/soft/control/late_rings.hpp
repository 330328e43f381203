// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Completion queues whose producers' lock is held by a process that is stopped.
///
/// Every producer of a completion queue needs that lock for some ten nanoseconds. If a process is
/// stopped there (by a signal or a debugger), nobody could send to the queue any more. So the owner
/// gives the queue another line of producers and another ring, from one call for attention to the
/// next, and the stopped process keeps the old ones: it cannot know. When it goes on, it finishes
/// its message there, and the owner takes it from there. So no message is lost, and each sender's
/// messages keep their order: see take_next() in completer/shared_ring.cpp.
///
/// If all lines are held by stopped processes, or there is no memory for another ring, senders wait
/// as their ack timers say.
///
/// Owns the late rings, in the CompletionQueue. The thread that answers calls for attention
/// replaces; the helper tends, under `lifetime` (shared). Takes `completer`, and inside it
/// `helper`, `peers` and `segment`. Not hot.
#include "soft/completer/completion_queue.hpp"

namespace verbatim::engine {

/// Gives the queue another ring, unless that process has let go of the lock.
void replace_ring(Engine& engine, CompletionQueue& queue, std::uint32_t holder) noexcept;

/// Takes what came into late rings, and frees those that nobody can write to any more. True: there
/// are others, so call it again soon.
bool tend_late_rings(Engine& engine) noexcept;

/// For a queue to which nobody writes any more.
void free_late_rings(Engine& engine, CompletionQueue& queue) noexcept;

}  // namespace verbatim::engine
