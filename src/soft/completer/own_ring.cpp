// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/completer/own_ring.hpp"

#include "soft/completer/shared_ring.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {

void overrun_queue(CompletionQueue& queue) noexcept {
  if (!queue.overrun.exchange(true)) queue.engine->call_own_attention();
}

bool has_room(const CompletionQueue& queue, std::uint32_t count) noexcept {
  const std::uint32_t of_peers =
      current_line(*queue.shared).tail.load() - queue.shared_head.load(std::memory_order_relaxed);
  return count + of_peers < queue.depth;
}

void notify_own(CompletionQueue& queue, bool solicited) noexcept {
  notify(*queue.engine, queue.engine->self(), *queue.shared, queue.index, solicited);
}

}  // namespace verbatim::engine
