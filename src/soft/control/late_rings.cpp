// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/late_rings.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <span>

#include "soft/completer/own_ring.hpp"
#include "soft/completer/shared_ring.hpp"
#include "soft/memory/access_guard.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// A line of producers that nobody uses, or kProducerLines. The caller holds the queue's lock.
std::uint32_t free_line(const CompletionQueue& queue, std::uint32_t current) noexcept {
  const auto late = std::span{queue.late}.first(queue.late_count);
  std::uint32_t line = 0;
  while (line < kProducerLines && (line == current || queue.shared->lines[line].lock.load() != 0 ||
                                   std::ranges::find(late, line, &LateRing::line) != late.end()))
    ++line;
  return line;
}

/// Writes the numbers of a line whose next entry has this number. They go on where the old ones
/// were, because `head` is compared with both.
void begin_line(SharedCompletionQueue& shared, std::uint32_t line, std::uint32_t next) noexcept {
  ProducerLine& fresh = shared.lines[line];
  fresh.tail.store(next);
  fresh.head_seen = next;
  fresh.arena_tail = fresh.arena_seen = shared.arena_head.load();
  fresh.riding_end.store(next);
  fresh.riding_settled.store(next);
}

/// Whether nobody writes to the line any more. A dead holder's lock is taken away.
bool is_quiet(Engine& engine, ProducerLine& line) noexcept {
  std::uint32_t holder = line.lock.load();
  if (holder == 0) return true;
  return engine.peers().is_dead(holder) && line.lock.compare_exchange_strong(holder, 0);
}

void free_ring(Engine& engine, SharedCompletionQueue& shared, const LateRing& late) noexcept {
  engine.own().free(late.offset, late.bytes);
  engine.late_rings.fetch_sub(1);
  shared.late.fetch_sub(1);
}

/// Takes what came, and frees what it can. The caller holds the queue's lock. True: something came.
bool tend(Engine& engine, CompletionQueue& queue) noexcept {
  const std::uint32_t before = queue.tail.load(std::memory_order_relaxed);
  bool is_quiet_now[kProducerLines - 1];
  for (std::uint32_t i = 0; i < queue.late_count; ++i)
    is_quiet_now[i] = is_quiet(engine, queue.shared->lines[queue.late[i].line]);
  settle_locked(engine, queue);
  // What does not fit waits for the next time.
  const bool took_all = queue.tail - queue.head < queue.capacity;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < queue.late_count; ++i) {
    if (took_all && is_quiet_now[i])
      free_ring(engine, *queue.shared, queue.late[i]);
    else
      queue.late[kept++] = queue.late[i];
  }
  queue.late_count = kept;
  return queue.tail.load(std::memory_order_relaxed) != before;
}

}  // namespace

void replace_ring(Engine& engine, CompletionQueue& queue, std::uint32_t holder) noexcept {
  if (holder == engine.tag()) return;  // Our own threads resize it.
  const std::lock_guard lock{queue.lock};
  SharedCompletionQueue& shared = *queue.shared;
  const std::uint32_t current = line_of(shared.ring.load());
  ProducerLine& old = shared.lines[current];
  if (old.lock.load() != holder) return;
  const std::uint32_t riding_end = old.riding_end.load();
  settle_locked(engine, queue);
  old.riding_settled.store(riding_end);
  const std::uint32_t line = free_line(queue, current);
  if (line == kProducerLines || queue.tail - queue.head >= queue.capacity) return;
  const auto offset = engine.own().allocate(queue.ring_bytes);
  if (!offset) return;
  const std::uint32_t next = queue.shared_head.load();
  queue.late[queue.late_count++] = {.line = current,
                                    .next = next,
                                    .entries = queue.entries,
                                    .arena = {queue.arena, queue.arena_bytes},
                                    .capacity = queue.capacity,
                                    .offset = queue.ring_offset,
                                    .bytes = queue.ring_bytes};
  engine.late_rings.fetch_add(1);
  shared.late.fetch_add(1);
  auto* const entries = engine.own().at<CompletionEntry>(*offset);
  // No entry looks like one that was written: those have numbers from `next` + 1 on.
  for (std::uint32_t i = 0; i < queue.capacity; ++i) entries[i].sequence.store(next);
  begin_line(shared, line, next);
  queue.ring_offset = *offset;
  queue.entries = entries;
  queue.arena = reinterpret_cast<const std::byte*>(entries + queue.capacity);
  shared.ring.store(*offset + line);  // From here on producers use it.
  engine.start_helper();              // Polls do not look for what comes late.
}

bool tend_late_rings(Engine& engine) noexcept {
  if (engine.late_rings.load() == 0) return false;
  // After this, a producer that takes the lock of an old line finds that the queue has another one.
  if (!order_requesters(engine)) return true;
  const std::shared_lock alive{engine.lifetime};
  engine.completion_queues.for_each([&engine](CompletionQueue& queue) {
    bool came = false;
    {
      const std::lock_guard lock{queue.lock};
      came = queue.late_count != 0 && tend(engine, queue);
    }
    if (came && queue.has_channel) notify_own(queue, true);
  });
  return engine.late_rings.load() != 0;
}

void free_late_rings(Engine& engine, CompletionQueue& queue) noexcept {
  for (const LateRing& late : std::span{queue.late}.first(queue.late_count))
    free_ring(engine, *queue.shared, late);
  queue.late_count = 0;
}

}  // namespace verbatim::engine
