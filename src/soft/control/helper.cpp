// SPDX-License-Identifier: MIT OR Apache-2.0
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "soft/control/events.hpp"
#include "soft/control/queue_pair.hpp"
#include "soft/faults/hook.hpp"
#include "soft/memory/relay.hpp"
#include "soft/requester/retry.hpp"
#include "soft/shared/engine.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::engine {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

}  // namespace

/// A port that a script took down comes up again: every context hears of it.
void Engine::watch_port() noexcept {
  if (!port_came_up(now_ns())) return;
  const std::lock_guard lock{contexts_mutex_};
  for (Context* const context : contexts_) raise_event(*context, IBV_EVENT_PORT_ACTIVE, nullptr, 1);
}

void Engine::wait_for(QueuePair& queue_pair, std::uint64_t due_ns) noexcept {
  {
    const std::lock_guard lock{waiting_mutex_};
    if (!queue_pair.listed) {
      waiting_.push_back(&queue_pair);
      queue_pair.listed = true;
      waiting_count_.store(static_cast<std::uint32_t>(waiting_.size()));
    }
    earliest_ns_.store(std::min(earliest_ns_.load(), due_ns));
  }
  start_helper();
  peers_.find(own_->slot())->ring_doorbell();
}

void Engine::forget(QueuePair& queue_pair) noexcept {
  const std::lock_guard lock{waiting_mutex_};
  std::erase(waiting_, &queue_pair);
  queue_pair.listed = false;
  waiting_count_.store(static_cast<std::uint32_t>(waiting_.size()));
}

void Engine::progress_slowly() noexcept {
  const std::shared_lock alive{lifetime};
  if (segment().attention.load() != 0) answer_attention();
  if (waiting_count_.load() == 0) return;
  // One thread at a time is enough; a poller does not wait for another.
  std::unique_lock lock{waiting_mutex_, std::try_to_lock};
  if (!lock) return;
  std::uint64_t earliest = kNever;
  std::vector<QueuePair*> broken;
  for (std::size_t i = 0; i < waiting_.size();) {
    QueuePair& queue_pair = *waiting_[i];
    const std::uint64_t due = retry(queue_pair, broken);
    if (due != 0) {
      earliest = std::min(earliest, due);
      ++i;
      continue;
    }
    queue_pair.listed = false;
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
  }
  waiting_count_.store(static_cast<std::uint32_t>(waiting_.size()));
  earliest_ns_.store(earliest);
  lock.unlock();
  for (QueuePair* const each : broken) break_queue_pair(*each);
}

void Engine::answer_attention() noexcept {
  if (segment().attention.exchange(0) == 0) return;
  const std::lock_guard lock{attention_mutex_};
  for (std::uint32_t i = 0; i < kCompletionQueues; ++i) {
    CompletionQueue* const queue = completion_queues.at(i);
    if (queue == nullptr || queue->shared->failed.exchange(0) == 0 || queue->overrun.exchange(true))
      continue;
    raise_event(Context::of(queue->raw.context), IBV_EVENT_CQ_ERR, queue->handle());
  }
  for (std::uint32_t i = 0; i < kQueuePairs; ++i)
    if (QueuePair* const queue_pair = queue_pairs.at(i)) answer_fault(*queue_pair);
  for (std::uint32_t i = 0; i < kSharedQueues; ++i) {
    SharedReceiveQueue* const queue = shared_queues.at(i);
    if (queue != nullptr && queue->receives.shared->limit_reached.exchange(0) != 0)
      raise_event(Context::of(queue->raw.context), IBV_EVENT_SRQ_LIMIT_REACHED, &queue->raw);
  }
}

void Engine::run_helper() noexcept {
  pthread_setname_np(pthread_self(), "verbatim-soft");
  Segment& shared = segment();
  while (!stop_.load()) {
    const std::uint32_t rung = shared.doorbell.load();
    answer_relay(*this);
    progress();
    std::uint64_t due = waiting_count_.load() != 0 ? earliest_ns_.load() : kNever;
    if (is_unusual()) {
      watch_port();
      if (const std::uint64_t until = port_down_until(); until != 0) due = std::min(due, until);
    }
    const std::uint64_t now = now_ns();
    // At most a second: a lost wake-up then costs no more than that.
    const std::uint64_t sleep = due <= now ? 0 : std::min<std::uint64_t>(due - now, 1'000'000'000);
    if (sleep == 0) {
      sched_yield();
      continue;
    }
    const timespec timeout{.tv_sec = static_cast<time_t>(sleep / 1'000'000'000),
                           .tv_nsec = static_cast<long>(sleep % 1'000'000'000)};
    shared.helper_sleeps.store(1);
    syscall(SYS_futex, &shared.doorbell, FUTEX_WAIT, rung, &timeout, nullptr, 0);
    shared.helper_sleeps.store(0);
  }
}

}  // namespace verbatim::engine
