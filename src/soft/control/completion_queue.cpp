// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/completion_queue.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>

#include "soft/completer/shared_ring.hpp"
#include "soft/control/completion_channel.hpp"
#include "soft/control/device.hpp"
#include "soft/control/events.hpp"
#include "soft/control/ghosts.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

int allocate_rings(Engine& engine, CompletionQueue& queue, std::uint32_t depth) noexcept {
  queue.depth = depth;
  queue.capacity = std::bit_ceil(depth);
  queue.ring.reset(new (std::nothrow) OwnCompletion[queue.capacity]);
  if (queue.ring == nullptr) return ENOMEM;
  const std::uint64_t bytes = ring_bytes_of(queue.capacity);
  const auto offset = engine.own().allocate(bytes);
  if (!offset) return errno_of(offset.error());
  queue.ring_offset = *offset;
  queue.ring_bytes = bytes;
  queue.entries = engine.own().at<CompletionEntry>(*offset);
  queue.arena = reinterpret_cast<const std::byte*>(queue.entries + queue.capacity);
  queue.arena_bytes = arena_bytes_of(queue.capacity);
  SharedCompletionQueue& shared = *queue.shared;
  const std::uint32_t index = line_of(shared.ring.load());
  ProducerLine& line = shared.lines[index];
  shared.capacity = queue.capacity;
  shared.depth = depth;
  shared.ring.store(*offset + index);
  line.head_seen = 0;
  line.arena_tail = 0;
  line.arena_seen = 0;
  line.riding_end.store(0);
  line.riding_settled.store(0);
  line.tail.store(0);
  shared.head.store(0);
  shared.arena_head.store(0);
  queue.shared_head.store(0);
  return 0;
}

}  // namespace

ibv_cq* create_completion_queue(ibv_context* raw, int depth, void* user, ibv_comp_channel* channel,
                                int vector) noexcept {
  Context& context = Context::of(raw);
  Engine& engine = *context.engine;
  auto queue = std::unique_ptr<CompletionQueue>{new (std::nothrow) CompletionQueue{}};
  if (queue == nullptr || depth <= 0 || depth > static_cast<int>(kMaxCompletions) || vector != 0 ||
      (channel != nullptr && channel->context != raw)) {
    errno = queue == nullptr ? ENOMEM : EINVAL;
    return nullptr;
  }
  queue->engine = &engine;
  queue->index = engine.completion_queues.reserve(2);
  if (queue->index == kCompletionQueues) {
    errno = ENOMEM;
    return nullptr;
  }
  queue->shared = &engine.segment().completion_queues[queue->index];
  const auto backed = engine.own().back(queue->shared, sizeof *queue->shared);
  int failed = backed ? 0 : errno_of(backed.error());
  if (failed == 0) {
    queue->shared->late.store(0);
    for (ProducerLine& line : queue->shared->lines) line.lock.store(0);
    failed = allocate_rings(engine, *queue, static_cast<std::uint32_t>(depth));
  }
  if (failed != 0) {
    engine.completion_queues.remove(queue->index);
    errno = failed;
    return nullptr;
  }
  SharedCompletionQueue& shared = *queue->shared;
  shared.failed.store(0);
  shared.armed.store(0);
  shared.unheard.store(0);
  shared.stuck.store(0);
  shared.own_count.store(0);
  shared.channel = channel != nullptr ? reinterpret_cast<CompletionChannel*>(channel)->number : 0;
  queue->has_channel = channel != nullptr;
  shared.generation.fetch_add(1);
  Word& end = engine.segment().completion_queues_end;
  if (end.load() <= queue->index) end.store(queue->index + 1);
  ibv_cq& handle = *queue->handle();
  handle.context = raw;
  handle.channel = channel;
  handle.cq_context = user;
  handle.handle = queue->index;
  handle.cqe = depth;
  engine.completion_queues.show(queue->index, queue.get());
  context.objects.fetch_add(1);
  if (channel != nullptr) reinterpret_cast<CompletionChannel*>(channel)->users.fetch_add(1);
  return queue.release()->handle();
}

int resize_completion_queue(ibv_cq* raw, int depth) noexcept {
  CompletionQueue& queue = CompletionQueue::of(raw);
  Engine& engine = *queue.engine;
  if (depth <= 0 || depth > static_cast<int>(kMaxCompletions)) return EINVAL;
  // Keeps producers out while the rings change. Nobody replaces the line meanwhile, because its
  // holder is this process: see late_rings.cpp.
  ProducerLine& line = current_line(*queue.shared);
  const TaggedGuard producers{line.lock, engine.tag(), engine.peers(), LockRank::completions};
  if (!producers || &line != &current_line(*queue.shared)) return EBUSY;
  settle(engine, queue);
  int failed = 0;
  {
    const std::lock_guard lock{queue.lock};
    const std::uint32_t count = queue.tail - queue.head;
    auto old = std::move(queue.ring);
    const std::uint32_t old_capacity = queue.capacity;
    const std::uint32_t old_depth = queue.depth;
    const std::uint64_t old_offset = queue.ring_offset;
    const std::uint64_t old_bytes = queue.ring_bytes;
    failed = count > static_cast<std::uint32_t>(depth) ? EINVAL : 0;
    if (failed == 0) failed = allocate_rings(engine, queue, static_cast<std::uint32_t>(depth));
    if (failed != 0) {
      queue.ring = std::move(old);
      queue.capacity = old_capacity;
      queue.depth = old_depth;
    } else {
      for (std::uint32_t i = 0; i < count; ++i)
        queue.ring[i] = old[(queue.head + i) & (old_capacity - 1)];
      queue.head.store(0);
      queue.tail.store(count);
      engine.own().free(old_offset, old_bytes);
      raw->cqe = depth;
    }
  }
  return failed;
}

int destroy_completion_queue(ibv_cq* raw) {
  auto* const queue = &CompletionQueue::of(raw);
  if (queue->users.load() != 0) return EBUSY;
  Engine& engine = *queue->engine;
  Context& context = Context::of(raw->context);
  {
    // Waits for a thread that is about to write an event of the queue that waited for room.
    const std::lock_guard alone{engine.lifetime};
    queue->shared->generation.fetch_add(1);
    queue->shared->unheard.store(0);
  }
  // Notifications that the program has not read must not wake it after the queue is gone.
  if (raw->channel != nullptr) drop_messages(*raw->channel, queue->index);
  // ibv_destroy_cq promises to wait until the program has acknowledged every event that it took.
  for (std::uint32_t given = queue->acknowledged.load(); given != queue->delivered.load();
       given = queue->acknowledged.load())
    queue->acknowledged.wait(given);
  std::unique_lock removing{engine.lifetime, std::defer_lock};
  lock_without_events(removing, context, raw);
  engine.completion_queues.hide(queue->index);
  if (raw->channel != nullptr)
    reinterpret_cast<CompletionChannel*>(raw->channel)->users.fetch_sub(1);
  context.objects.fetch_sub(1);
  if (!keep_for_ghosts(engine, *queue)) free_completion_queue(engine, *queue);
  return 0;
}

}  // namespace verbatim::engine
