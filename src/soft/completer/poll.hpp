// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Polling and arming a completion queue.
///
/// Owns nothing. Any thread of the program. Polling takes `completer`, and, if there is work for
/// the engine (Engine::progress), the locks of the helper. Neither kind of completion, our own and
/// those of peers, waits behind the other without bound. Hot.
#include <infiniband/verbs.h>

namespace verbatim::engine {

// Verbs.
int poll(ibv_cq* queue, int count, ibv_wc* completions) noexcept;
int arm(ibv_cq* queue, int solicited_only) noexcept;

struct CompletionQueue;
/// Whether the queue's event should be on its way: it is armed and holds a completion, or a
/// producer is writing the event. That lasts for microseconds, unless the producer was killed or
/// stopped.
[[nodiscard]] bool owes_event(const CompletionQueue& queue) noexcept;
/// Writes the event in the producer's place. If the producer goes on, there are two.
void write_owed_event(CompletionQueue& queue) noexcept;

}  // namespace verbatim::engine
