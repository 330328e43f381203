// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Queue pairs that ended while a stopped process was inside them.
///
/// The process may go on at any time, finish its copy (which goes to other memory than the receives
/// of the queue pair) and write a completion. So the places in the segment that it may write to
/// stay as they are until it has left or is dead: the queue pair's, its ring of receives, and the
/// ring of its completion queue. All else of the queue pair is gone, as the program wished.
///
/// Owns those queue pairs and completion queues (the list is in the engine). Control verbs and the
/// helper come here. Takes `ghosts`, and, when it frees, `receives` and `segment`. Not hot.
#include "soft/completer/completion_queue.hpp"
#include "soft/requester/queue_pair.hpp"

namespace verbatim::engine {

/// Takes over a queue pair that nobody finds any more. It stays a user of its shared receive queue:
/// the process inside may have taken a receive.
void add_ghost(Engine& engine, QueuePair& queue_pair) noexcept;
/// Takes over a completion queue that nobody finds any more, if a ghost may write to it. False:
/// none does, free it.
[[nodiscard]] bool keep_for_ghosts(Engine& engine, CompletionQueue& queue) noexcept;
/// Frees what was kept for those that have left by now.
void lay_ghosts(Engine& engine) noexcept;

/// Frees a completion queue that nobody finds any more.
void free_completion_queue(Engine& engine, CompletionQueue& queue) noexcept;

}  // namespace verbatim::engine
