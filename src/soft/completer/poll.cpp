// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/completer/poll.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "soft/completer/completion_queue.hpp"
#include "soft/completer/own_ring.hpp"
#include "soft/completer/shared_ring.hpp"
#include "soft/faults/hook.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

/// Whether a peer has written the next entry of the shared ring.
[[gnu::always_inline]] inline bool peers_wrote(const CompletionQueue& queue) noexcept {
  const std::uint32_t next = queue.shared_head.load(std::memory_order_acquire);
  const CompletionEntry& entry =
      queue.entries.load(std::memory_order_relaxed)[next & (queue.capacity - 1)];
  return entry.sequence.load(std::memory_order_relaxed) == next + 1;
}

/// Whether there is a completion of our own.
[[gnu::always_inline]] inline bool has_own(const CompletionQueue& queue) noexcept {
  return queue.head.load(std::memory_order_relaxed) != queue.tail.load(std::memory_order_acquire);
}

/// Without the lock. A thread that settles moves completions from the shared ring to our own, so
/// the shared one comes first: what has left it has arrived in ours.
[[gnu::always_inline]] inline bool is_empty(const CompletionQueue& queue) noexcept {
  return !peers_wrote(queue) && !has_own(queue);
}

/// Hands out our own completions, after the `taken` of `count` that are already there. The caller
/// holds the lock.
int take_own(CompletionQueue& queue, int count, ibv_wc* completions, int taken) noexcept {
  std::uint32_t head = queue.head.load(std::memory_order_relaxed);
  const std::uint32_t tail = queue.tail.load(std::memory_order_relaxed);
  for (; taken < count && head != tail; ++head, ++taken) {
    OwnCompletion& done = queue.ring[head & (queue.capacity - 1)];
    completions[taken] = done.wc;
    if (done.is_receive) {
      retire_receive(*done.ring);
      --queue.own_receives;
    } else {
      done.retired->store(done.number + 1, std::memory_order_release);
    }
    if (done.is_rare) done = {};
  }
  queue.head.store(head, std::memory_order_relaxed);
  queue.shared->own_count.store(tail - head, std::memory_order_relaxed);
  return taken;
}

int take_of_peers(CompletionQueue& queue, int count, ibv_wc* completions, int taken) noexcept {
  return taken + take_shared(*queue.engine, queue, count - taken, completions + taken);
}

/// After this many polls in a row that our own completions filled, peers' completions come first
/// once.
constexpr std::uint32_t kMostFullPolls = 64;

/// Hands out up to `count` completions of both kinds. Our own come first until they have filled
/// kMostFullPolls polls in a row. Then peers' completions come first once, and leave one place for
/// our own. So neither kind can starve the other. If some of our own are receives, they stay first,
/// because they arrived before what is in the shared ring. The caller holds the lock; this function
/// releases it.
[[gnu::noinline]] int take_any(CompletionQueue& queue, int count, ibv_wc* completions) noexcept {
  const std::lock_guard lock{queue.lock, std::adopt_lock};
  int taken = 0;
  if (queue.full_polls >= kMostFullPolls && queue.own_receives == 0 && peers_wrote(queue)) {
    queue.full_polls = 0;
    taken = take_of_peers(queue, std::max(count - 1, std::min(count, 1)), completions, taken);
  }
  taken = take_own(queue, count, completions, taken);
  if (taken == count && queue.full_polls < kMostFullPolls) ++queue.full_polls;
  return take_of_peers(queue, count, completions, taken);
}

[[gnu::noinline, gnu::cold]] int poll_after_progress(CompletionQueue& queue, int count,
                                                     ibv_wc* completions) noexcept {
  queue.engine->progress();
  queue.lock.lock();
  return take_any(queue, count, completions);
}

/// Fills the places after the first `taken`.
[[gnu::noinline]] int take_more(CompletionQueue& queue, int count, ibv_wc* completions,
                                int taken) noexcept {
  return taken + take_any(queue, count - taken, completions);
}

}  // namespace

// Programs call this in a loop until it returns something, so it is short and a leaf function. It
// handles only the common case, completions of our own sends. Everything else goes to out-of-line
// functions.
int poll(ibv_cq* raw, int count, ibv_wc* completions) noexcept {
  CompletionQueue& queue = CompletionQueue::of(raw);
  if (queue.engine->has_work() || count <= 0) [[unlikely]]
    return poll_after_progress(queue, count, completions);
  if (!has_own(queue) && is_empty(queue)) return 0;
  if (!queue.lock.try_lock()) [[unlikely]]
    return poll_after_progress(queue, count, completions);
  const std::uint32_t head = queue.head.load(std::memory_order_relaxed);
  const std::uint32_t ready = queue.tail.load(std::memory_order_relaxed) - head;
  const std::uint32_t wanted = std::min(ready, static_cast<std::uint32_t>(count));
  if (queue.full_polls >= kMostFullPolls) [[unlikely]] {
    if (peers_wrote(queue)) return take_any(queue, count, completions);
    queue.full_polls = 0;
  }
  std::uint32_t taken = 0;
  for (; taken != wanted; ++taken, ++completions) {
    const OwnCompletion& done = queue.ring[(head + taken) & (queue.capacity - 1)];
    if (done.is_rare) [[unlikely]]
      break;
    *completions = done.wc;
    done.retired->store(done.number + 1, std::memory_order_release);
  }
  queue.head.store(head + taken, std::memory_order_relaxed);
  queue.shared->own_count.store(ready - taken, std::memory_order_relaxed);
  const auto done = static_cast<int>(taken);
  if (done == count) {
    ++queue.full_polls;
  } else if (taken != ready || peers_wrote(queue)) [[unlikely]] {
    return take_more(queue, count, completions, done);
  }
  queue.lock.unlock();
  return done;
}

int arm(ibv_cq* raw, int only_solicited) noexcept {
  CompletionQueue& queue = CompletionQueue::of(raw);
  const std::uint32_t wanted = only_solicited != 0 ? solicited_only : any;
  // Arming for solicited completions must not undo an arming for any completion, neither an earlier
  // one nor one of another thread at this moment.
  std::uint32_t armed = queue.shared->armed.load();
  while ((armed < wanted || armed == telling) &&
         !queue.shared->armed.compare_exchange_weak(armed, wanted)) {
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // Pairs with notify().
  // A completion that came before the arming raises its event now. The text of the verbs asks for
  // later ones only, but hardware compares with what was polled, and UCX relies on that: it does
  // not poll between arming and sleeping. On unusual days a program has to cope with the text, and
  // for solicited completions: we cannot tell whether one of those that wait is one.
  if (wanted == any && queue.has_channel && !is_unusual() && !is_empty(queue))
    notify_own(queue, true);
  return 0;
}

bool owes_event(const CompletionQueue& queue) noexcept {
  if (!queue.has_channel) return false;
  const std::uint32_t armed = queue.shared->armed.load(std::memory_order_relaxed);
  return armed == telling || (armed == any && !is_unusual() && !is_empty(queue));
}

void write_owed_event(CompletionQueue& queue) noexcept {
  std::uint32_t armed = telling;
  queue.shared->armed.compare_exchange_strong(armed, any);
  notify_own(queue, true);
}

}  // namespace verbatim::engine
