// SPDX-License-Identifier: MIT OR Apache-2.0
// The work that does not finish in the posting thread: waiting requests, and calls for attention.
// The helper thread does both while the program is not in the library.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <shared_mutex>

#include "soft/completer/completion_queue.hpp"
#include "soft/completer/poll.hpp"
#include "soft/completer/shared_ring.hpp"
#include "soft/control/events.hpp"
#include "soft/control/ghosts.hpp"
#include "soft/control/late_rings.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/faults/hook.hpp"
#include "soft/memory/relay.hpp"
#include "soft/requester/retry.hpp"
#include "soft/responder/receive_ring.hpp"
#include "soft/shared/engine.hpp"

namespace verbatim::engine {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};
/// How long a message may lie in a late ring, when its sender goes on after a stop.
constexpr std::uint64_t kLateNs = 10'000'000;
/// How long after a completion its event may come: a producer that takes longer is dead, or stands
/// still.
constexpr std::uint64_t kOwedNs = 100'000'000;
/// How often to look for such events.
constexpr std::uint64_t kLookNs = 500'000'000;
/// How often to try again to break a queue pair that a stopped process is inside.
constexpr std::uint64_t kBreakNs = 50'000'000;

}  // namespace

/// Raises an event in every context when a port that a script took down comes up again.
void Engine::watch_port() noexcept {
  if (!port_came_up(now_ns())) return;
  const std::lock_guard lock{contexts_mutex_};
  for (Context* const context : contexts_) raise_event(*context, IBV_EVENT_PORT_ACTIVE, nullptr, 1);
}

void Engine::call_own_attention() noexcept {
  segment().attention.store(1);
  start_helper();
  self().ring_doorbell();
}

void Engine::wait_for(QueuePair& queue_pair, std::uint64_t due_ns) noexcept {
  if (!queue_pair.listed.exchange(true)) {
    QueuePair* first = newly_waiting_.load();
    do {
      queue_pair.next_waiting = first;
    } while (!newly_waiting_.compare_exchange_weak(first, &queue_pair));
    waiting_count_.fetch_add(1);
  }
  std::uint64_t earliest = earliest_ns_.load();
  while (due_ns < earliest && !earliest_ns_.compare_exchange_weak(earliest, due_ns)) {
  }
  start_helper();
  self().ring_doorbell();
}

/// Moves the queue pairs that have begun to wait into the list. The caller holds the mutex.
void Engine::admit_waiting() noexcept {
  QueuePair* next = newly_waiting_.exchange(nullptr);
  while (next != nullptr) {
    QueuePair* const each = next;
    next = each->next_waiting;
    each->next_waiting = waiting_;
    waiting_ = each;
  }
}

void Engine::forget(QueuePair& queue_pair) noexcept {
  const std::lock_guard lock{waiting_mutex_};
  admit_waiting();
  for (QueuePair** at = &waiting_; *at != nullptr; at = &(*at)->next_waiting) {
    if (*at != &queue_pair) continue;
    *at = queue_pair.next_waiting;
    queue_pair.listed.store(false);
    waiting_count_.fetch_sub(1);
    return;
  }
}

/// One thread at a time is enough, so a poller that finds another thread here returns at once.
void Engine::retry_waiting() noexcept {
  const std::unique_lock lock{waiting_mutex_, std::try_to_lock};
  if (!lock) return;
  earliest_ns_.store(kNever);  // A queue pair that comes while we look lowers it again.
  admit_waiting();
  std::uint64_t earliest = kNever;
  bool broken = false;
  for (QueuePair** at = &waiting_; *at != nullptr;) {
    QueuePair& queue_pair = **at;
    const std::uint64_t due = retry(queue_pair);
    broken |= queue_pair.broken.load();
    if (due != 0) {
      earliest = std::min(earliest, due);
      at = &queue_pair.next_waiting;
      continue;
    }
    *at = queue_pair.next_waiting;
    queue_pair.listed.store(false);
    waiting_count_.fetch_sub(1);
    // Another thread may have posted and queued a request before the queue pair left the list.
    const std::unique_lock posting{queue_pair.lock, std::try_to_lock};
    if (!posting || queue_pair.has_runnable()) wait_for(queue_pair, now_ns() + kBusyNs);
  }
  std::uint64_t before = earliest_ns_.load();
  while (earliest < before && !earliest_ns_.compare_exchange_weak(before, earliest)) {
  }
  // The helper may have gone to sleep while we held the list, without seeing the queue pairs in it.
  // The thread that polls now may go to sleep next, so the helper has to know.
  if (earliest < helper_due_ns_.load()) self().ring_doorbell();
  if (broken) segment().attention.store(1);
}

void Engine::progress_slowly() noexcept {
  const std::shared_lock alive{lifetime};
  if (segment().attention.load() != 0) answer_attention();
  if (waiting_count_.load() == 0) return;
  retry_waiting();
  if (segment().attention.load() != 0) answer_attention();  // A request failed in the meantime.
}

/// Writes the events that are not in their channels: a peer could not open the channel, or it was
/// full. What finds it full again waits until messages are taken out of it.
void Engine::write_unheard_events() noexcept {
  bool is_full = false;
  completion_queues.for_each([&](CompletionQueue& queue) {
    if (queue.shared->unheard.exchange(0) == 0 ||
        write_event(*this, self(), *queue.shared, queue.index))
      return;
    queue.shared->unheard.store(1);
    is_full = true;
  });
  // A thread that emptied the channel before it could see this comes too late. So try once more.
  if (channel_was_full_.exchange(is_full) != is_full && is_full) call_own_attention();
}

/// Offers receives again that their senders could not use, or died with.
void Engine::take_back_receives() noexcept {
  const auto offer = [this](ReceiveLock& lock, ReceiveRing& ring, CompletionQueue* polled) {
    if (ring.shared->given_back.load() == 0 || ring.shared->given_back.exchange(0) == 0) return;
    settle();  // Those that have been completed after all are left alone.
    offer_again(lock, ring, kGivenBack, polled);
  };
  shared_queues.for_each(
      [&](SharedReceiveQueue& queue) { offer(queue.lock, queue.receives, nullptr); });
  receive_sides.for_each([&](const ReceiveSide& side) {
    if (!side.ring->is_shared) offer(QueuePair::of(side).receive_lock, *side.ring, side.queue);
  });
}

/// Writes the events that killed or stopped producers left. Returns when to look again (steady
/// clock).
std::uint64_t Engine::write_owed_events() noexcept {
  const std::uint64_t now = now_ns();
  std::uint64_t next = now + kLookNs;
  const std::shared_lock alive{lifetime};
  completion_queues.for_each([&](CompletionQueue& queue) {
    if (!owes_event(queue)) {
      queue.owes_since_ns = 0;
      return;
    }
    // An owner that polls is awake. The event of a later completion is on its way now.
    const std::uint32_t polled = queue.head.load() + queue.shared_head.load();
    if (queue.owes_since_ns == 0 || queue.owes_after != polled) {
      queue.owes_since_ns = now;
      queue.owes_after = polled;
    }
    if (now - queue.owes_since_ns >= kOwedNs) {
      queue.owes_since_ns = 0;
      write_owed_event(queue);
    } else {
      next = std::min(next, now + kOwedNs);
    }
  });
  return next;
}

/// A thread that finds another one here leaves its cry to that one, which looks again.
void Engine::answer_attention() noexcept {
  do {
    const std::unique_lock lock{attention_mutex_, std::try_to_lock};
    if (!lock || segment().attention.exchange(0) == 0) return;
    answer_cries();
  } while (segment().attention.load() != 0);
}

void Engine::answer_cries() noexcept {
  if (segment().unsettled.exchange(0) != 0) settle();
  {
    const std::lock_guard contexts{contexts_mutex_};
    for (Context* const context : contexts_) {
      const std::uint32_t cries = context->cries.exchange(0);
      if ((cries & cry_port_down) != 0) raise_event(*context, IBV_EVENT_PORT_ERR, nullptr, 1);
      if ((cries & cry_removed) != 0) raise_event(*context, IBV_EVENT_DEVICE_FATAL, nullptr);
    }
  }
  write_unheard_events();
  completion_queues.for_each([this](CompletionQueue& queue) {
    if (const std::uint32_t holder = queue.shared->stuck.exchange(0))
      replace_ring(*this, queue, holder);
    if (queue.shared->failed.exchange(0) != 0) queue.overrun.store(true);
    if (!queue.overrun.load() || queue.overrun_told.exchange(true)) return;
    queue.breaks.store(true);
    raise_event(Context::of(queue.raw.context), IBV_EVENT_CQ_ERR, queue.handle());
  });
  bool again = false;
  receive_sides.for_each(
      [&](const ReceiveSide& side) { again |= !answer_cry(QueuePair::of(side)); });
  if (again) {
    break_at_ns_.store(now_ns() + kBreakNs);
    start_helper();
    self().ring_doorbell();
  }
  completion_queues.for_each([](CompletionQueue& queue) { queue.breaks.store(false); });
  take_back_receives();
  shared_queues.for_each([](SharedReceiveQueue& queue) {
    SharedReceives& receives = *queue.receives.shared;
    std::uint64_t reached = receives.limit_reached.exchange(0);
    // One event per arming, however many requesters called for it.
    if (limit_of(reached) != 0 &&
        receives.limit.compare_exchange_strong(reached, limit_word(armings_of(reached), 0)))
      raise_event(Context::of(queue.raw.context), IBV_EVENT_SRQ_LIMIT_REACHED, &queue.raw);
  });
}

void Engine::run_helper() noexcept {
  pthread_setname_np(pthread_self(), "verbatim-soft");
  Segment& shared = segment();
  std::uint64_t next_look = 0;
  while (!stop_.load()) {
    const std::uint32_t rung = shared.doorbell.load();
    answer_relay(*this);
    if (has_work()) progress_slowly();
    lay_ghosts(*this);
    std::uint64_t due = reclaim();
    if (now_ns() >= next_look) next_look = write_owed_events();
    due = std::min(due, next_look);
    const std::uint64_t break_at = break_at_ns_.load();
    if (break_at <= now_ns()) {
      break_at_ns_.store(kNever);
      shared.attention.store(1);
      continue;
    }
    due = std::min(due, break_at);
    if (tend_late_rings(*this)) due = std::min(due, now_ns() + kLateNs);
    if (waiting_count_.load() != 0) due = std::min(due, earliest_ns_.load());
    if (is_unusual()) {
      watch_port();
      if (const std::uint64_t until = port_down_until(); until != 0) due = std::min(due, until);
    }
    const std::uint64_t now = now_ns();
    // At most a second, which bounds the cost of a lost wake-up.
    const std::uint64_t sleep = due <= now ? 0 : std::min<std::uint64_t>(due - now, 1'000'000'000);
    if (sleep == 0) {
      sched_yield();
      continue;
    }
    helper_due_ns_.store(due);
    if (waiting_count_.load() != 0 && earliest_ns_.load() < due) {  // Lowered before the store.
      helper_due_ns_.store(0);
      continue;
    }
    const timespec timeout{.tv_sec = static_cast<time_t>(sleep / 1'000'000'000),
                           .tv_nsec = static_cast<long>(sleep % 1'000'000'000)};
    shared.helper_sleeps.store(1);
    syscall(SYS_futex, &shared.doorbell, FUTEX_WAIT, rung, &timeout, nullptr, 0);
    shared.helper_sleeps.store(0);
    helper_due_ns_.store(0);
  }
}

}  // namespace verbatim::engine
