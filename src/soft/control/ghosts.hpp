// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Queue pairs that were destroyed while a stopped process was inside them.
///
/// The process may continue at any time, finish its copy (which goes to memory other than the queue
/// pair's receives) and write a completion. So the places in the segment that it may write to stay
/// as they are until it has left or is dead: the queue pair, its ring of receives, and the ring of
/// its completion queue. Everything else of the queue pair is gone, as the program wished.
///
/// Owns those queue pairs and completion queues (the list is in the engine). Control verbs and the
/// helper come here. Takes `ghosts`, and, when it frees, `receives` and `segment`. Not hot.
#include "soft/completer/completion_queue.hpp"
#include "soft/requester/queue_pair.hpp"

namespace verbatim::engine {

/// Takes over a queue pair that nobody can find any more. It stays a user of its shared receive
/// queue: the process inside may have taken a receive.
void add_ghost(Engine& engine, QueuePair& queue_pair) noexcept;
/// Takes over a completion queue that nobody can find any more, if a ghost may write to it. False:
/// none does, free it.
[[nodiscard]] bool keep_for_ghosts(Engine& engine, CompletionQueue& queue) noexcept;
/// Frees what was kept for processes that have left by now.
void lay_ghosts(Engine& engine) noexcept;

/// Frees a completion queue that nobody can find any more.
void free_completion_queue(Engine& engine, CompletionQueue& queue) noexcept;

}  // namespace verbatim::engine
