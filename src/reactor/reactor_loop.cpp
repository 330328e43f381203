// SPDX-License-Identifier: MIT OR Apache-2.0
// The loop of a Reactor: polling, timers, sleeping, and the descriptors that end a sleep.
#include <poll.h>
#include <sched.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "base/relax_processor.hpp"
#include "base/timespec.hpp"
#include "channel/channel_state.hpp"
#include "channel/shared_receives.hpp"
#include "reactor/reactor_state.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/verbs/detail/access.hpp"
#include "verbatim/verbs/detail/returned_blocks.hpp"

namespace verbatim::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// After this many polls without a result, each one yields the processor, because a thread that has
/// work for us may need it.
constexpr std::uint64_t kYieldAfter = 2000;
/// The limit of one poll(). A busy reactor leaves the rest to the next poll(), so that other users
/// of the loop get a turn.
constexpr std::size_t kMostLooks = 64;
/// A busy loop checks other descriptors once in this many turns.
constexpr std::uint64_t kLookAround = 64;

std::uint64_t in_nanoseconds(std::chrono::nanoseconds time) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}

}  // namespace

ReactorState::ReactorState(std::shared_ptr<CompletionCore> on, const ReactorOptions& chosen)
    : Driver{[](Driver& self, EventSource& source, int fd, short before, short events) noexcept {
        static_cast<ReactorState&>(self).watch_source(
            source, fd, static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(events));
      }},
      core(std::move(on)),
      options(chosen),
      completions_came_(*this,
                        [](EventSource& self, std::uint32_t) noexcept {
                          ReactorState& reactor = static_cast<Signal&>(self).reactor;
                          [[maybe_unused]] const auto taken =
                              reactor.core->events.wait(std::chrono::nanoseconds{0});
                          reactor.is_armed_ = false;
                        }),
      woken_(*this,
             [](EventSource& self, std::uint32_t) noexcept {
               ReactorState& reactor = static_cast<Signal&>(self).reactor;
               reactor.core->waker->clear();
               reactor.is_called_off = true;  // Perhaps.
               reactor.take_submitted();
               if (reactor.core->waker->interrupted.exchange(false)) reactor.attend_all();
             }),
      device_said_(*this,
                   [](EventSource& self, std::uint32_t) noexcept {
                     ReactorState& reactor = static_cast<Signal&>(self).reactor;
                     reactor.device_events.clear();
                     reactor.attend_all();
                   }),
      alarm_rang_(*this,
                  [](EventSource& self, std::uint32_t) noexcept {
                    ReactorState& reactor = static_cast<Signal&>(self).reactor;
                    std::uint64_t times = 0;
                    // If the timer was set again meanwhile, there is nothing to read.
                    if (::read(reactor.alarm.get(), &times, sizeof times) > 0)
                      reactor.alarm_at_ = kNever;
                  }),
      warn_after_(in_nanoseconds(chosen.warn)),
      spin_(in_nanoseconds(chosen.spin)) {}

Result<void> ReactorState::open() {
  core->wakeups.now = clock_now();
  core->waker = std::make_shared<Waker>();
  epoll = FileDescriptor{epoll_create1(EPOLL_CLOEXEC)};
  alarm = FileDescriptor{timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
  if (core->waker->fd() < 0 || epoll.get() < 0 || device_events.fd() < 0 || alarm.get() < 0)
    return std::unexpected(os_failure("Reactor::create", errno));
  for (const auto& [source, fd] :
       {std::pair{&completions_came_, core->events.fd()}, std::pair{&woken_, core->waker->fd()},
        std::pair{&device_said_, device_events.fd()}, std::pair{&alarm_rang_, alarm.get()}})
    if (const int failed = watch_source(*source, fd, 0, EPOLLIN))
      return std::unexpected(os_failure("Reactor::create", failed));
  Raw::watch_events(core->context, device_events.fd());
  core->driver = this;
  return {};
}

ReactorState::~ReactorState() {
  if (core->driver == nullptr) return;  // It could not be opened.
  check(inside.load(std::memory_order_relaxed) == 0,
        "Reactor: destroyed by one of its own coroutines, or while a thread is in it");
  while (roots != nullptr) {
    Root::promise_type& root = *roots;
    root.leave();
    root.handle().destroy();
  }
  Raw::unwatch_events(core->context, device_events.fd());
  while (core->channels != nullptr) core->channels->part_from_driver();
  core->driver = nullptr;
}

int ReactorState::watch_source(EventSource& source, int fd, std::uint32_t before,
                               std::uint32_t events) noexcept {
  epoll_event wanted{.events = events, .data = {.ptr = &source}};
  const int change = before == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  if (events == 0)
    for (epoll_event& each : left_)  // It may be gone before its turn.
      if (each.data.ptr == &source) each.data.ptr = nullptr;
  return epoll_ctl(epoll.get(), change, fd, &wanted) == 0 ? 0 : errno;
}

VERBATIM_HOT bool ReactorState::look() noexcept {
  const int count = core->turn();
  if (core->wakeups.attention) [[unlikely]]
    settle();
  if (count <= 0) [[unlikely]]
    return be_idle(count);
  idle_since_ = 0;
  if (++busy_turns_ % kLookAround == 0) [[unlikely]]
    be_busy();
  return true;
}

void ReactorState::be_busy() noexcept {
  read_clock();
  run_timers();
  look_around(0);
}

/// Steps the channels first, so that a waiter that is woken learns the reason.
void ReactorState::settle() noexcept {
  const Clock::time_point now{std::chrono::nanoseconds{core->wakeups.now}};
  do {
    core->wakeups.attention = false;
    while (ChannelState* const channel = core->troubled) {
      core->troubled = channel->driving.next_troubled;
      channel->driving.is_troubled = false;
      channel->attend(now);
    }
    while (Slot* const slot = core->wakeups.unlink()) wake(*slot);
  } while (core->wakeups.attention);
}

/// Between two readings there is at most one poll without a result, or kLookAround polls with one.
void ReactorState::read_clock() noexcept {
  const std::uint64_t now = clock_now();
  const std::uint64_t since = now - std::exchange(core->wakeups.now, now);
  // If the thread was outside the loop meanwhile, no coroutine of ours kept the others waiting.
  const bool was_inside = !std::exchange(was_outside_, false);
  if (since < warn_after_ || now < next_warning_ || !was_inside) [[likely]]
    return;
  next_warning_ = now + 1'000'000'000;
  if (!log_enabled()) return;
  const std::string text = "a Reactor did not look at its channels for " +
                           std::to_string(since / 1'000'000) +
                           " ms: a coroutine computes or blocks, and all others wait";
  log(LogLevel::warning, text);
}

bool ReactorState::be_idle(int count) noexcept {
  is_broken_ = count < 0;
  if (is_broken_)
    for (ChannelState* each = core->channels; each != nullptr; each = each->driving.after)
      if (!each->is_over()) each->end_at_once(core->broken());
  // Reading the clock costs more than a poll.
  if (count == 0 && idle_since_ != 0 && ++idle_turns_ % 4 != 0) return false;
  read_clock();
  // A coroutine that was resumed may have been the last one, or may have work for us. So poll again
  // before sleeping.
  if (run_timers() || core->wakeups.attention) {
    settle();
    idle_since_ = 0;
    return true;
  }
  if (idle_since_ == 0) idle_since_ = core->wakeups.now;
  return false;
}

bool ReactorState::run_timers() noexcept {
  const std::uint64_t now = core->wakeups.now;
  if (core->timers.first() > now) return false;
  // What came in time counts, however late we look.
  while (core->drain() > 0) {
  }
  while (Timer* const timer = core->timers.take_due(now)) timer->due(*timer);
  return true;
}

void ReactorState::attend_all() noexcept {
  if (core->shared_receives != nullptr) core->shared_receives->look_at_retired();
  const Clock::time_point now{std::chrono::nanoseconds{core->wakeups.now}};
  ChannelState* next = nullptr;
  for (ChannelState* each = core->channels; each != nullptr; each = next) {
    next = each->driving.after;
    each->attend(now);
  }
}

void ReactorState::take_submitted() noexcept {
  std::vector<std::function<void()>> taken;
  {
    const std::lock_guard lock{mutex};
    taken.swap(submitted);
  }
  for (const auto& work : taken) {
    try {
      work();
    } catch (...) {
      if (!thrown) call_off(std::current_exception());
    }
  }
}

void ReactorState::look_around(std::uint64_t longest) noexcept {
  if (longest != 0) {  // epoll_wait() has only ms; Valgrind lacks epoll_pwait2().
    const timespec time = to_timespec(std::chrono::nanoseconds{std::min(longest, kLongest)});
    pollfd all{.fd = epoll.get(), .events = POLLIN, .revents = 0};
    static_cast<void>(ppoll(&all, 1, &time, nullptr));
  }
  const int count = epoll_wait(epoll.get(), raised_.data(), static_cast<int>(raised_.size()), 0);
  core->wakeups.now = clock_now();
  left_ = std::span{raised_}.first(static_cast<std::size_t>(std::max(count, 0)));
  while (!left_.empty()) {
    const epoll_event each = left_.front();
    left_ = left_.subspan(1);
    if (auto* const source = static_cast<EventSource*>(each.data.ptr))
      source->ready(*source, each.events);
  }
  if (core->wakeups.attention) settle();
}

void ReactorState::pause() noexcept {
  const std::uint64_t waited = core->wakeups.now - idle_since_;
  if (waited < spin_) {
    if (waited < kYieldAfter)
      relax_processor();
    else
      sched_yield();
    return;
  }
  const std::uint64_t before = core->wakeups.now;
  if (!sleep()) return;
  idle_since_ = 0;
  // If the sleep was shorter than the time we may spin, spinning would have cost less.
  const std::uint64_t most = in_nanoseconds(options.spin);
  spin_ = core->wakeups.now - before < 4 * most
              ? std::min(most, std::max<std::uint64_t>(2 * spin_, 1000))
              : spin_ / 2;
}

bool ReactorState::sleep() noexcept {
  // A broken queue raises no events, but timers and descriptors still do.
  if (!core->arm() && !is_broken_) return false;
  if (look()) return false;  // It came between the last poll and the arming.
  const std::uint64_t first = core->timers.first();
  look_around(first > core->wakeups.now ? first - core->wakeups.now : 0);
  return true;
}

std::size_t ReactorState::arm() noexcept {
  std::size_t count = 0;
  do {
    look_around(0);  // Takes a pending event, so that the next one is raised.
    [[maybe_unused]] const auto armed = core->arm();  // Polling a broken queue reports that.
    is_armed_ = true;
    while (count < kMostLooks && look()) ++count;
    // look() may also have looked around, and taken the event of what came since.
  } while (!is_armed_ && count < kMostLooks);
  set_alarm();
  was_outside_ = true;
  return count;
}

void ReactorState::set_alarm() noexcept {
  const std::uint64_t first = core->timers.first();
  // A timer that expires too early costs one poll(), and setting it later costs as much.
  if (!has_shown_fd || first >= alarm_at_) return;
  const auto time = static_cast<std::int64_t>(std::max<std::uint64_t>(first, 1));  // 0 stops it.
  const itimerspec when{.it_interval = {}, .it_value = to_timespec(std::chrono::nanoseconds{time})};
  if (timerfd_settime(alarm.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0) alarm_at_ = first;
}

bool ReactorState::run(const bool* over) {
  const Visit visit{*this};
  was_outside_ = true;
  const bool& is_over = over != nullptr ? *over : has_no_roots;
  is_called_off = true;  // It may have been, before.
  for (;;) {
    if (is_called_off) [[unlikely]] {
      is_called_off = false;
      if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
      if (is_stopped.exchange(false)) return false;
    }
    if (is_over) return true;
    if (!look()) pause();
  }
}

std::size_t ReactorState::poll() {
  const Visit visit{*this};
  std::size_t count = 0;
  while (count < kMostLooks && look()) ++count;
  if (count < kMostLooks) count += arm();
  if (count >= kMostLooks) core->waker->wake();  // There may be more, so fd() stays readable.
  return count;
}

std::size_t ReactorState::poll(std::span<void*> out) {
  const Visit visit{*this};
  tags.begin(out);
  for (std::size_t looks = 0; tags.count(out) == 0; ++looks) {
    if (looks >= kMostLooks) {
      core->waker->wake();
      break;
    }
    if (look()) continue;
    const std::size_t came = arm();
    if (came == 0) break;
    looks += came;
  }
  const std::size_t count = tags.count(out);
  tags.end();
  return count;
}

ReactorState::Visit::Visit(ReactorState& reactor) : reactor_(reactor) {
  const std::uintptr_t self = this_thread();
  const std::uintptr_t other = reactor.inside.load(std::memory_order_relaxed);
  check(other != self, "Reactor: run() or poll() from inside one of its own coroutines");
  check(other == 0, "Reactor: two threads at once");
  reactor.inside.store(self, std::memory_order_relaxed);
  reactor.is_inside = true;
}
ReactorState::Visit::~Visit() {
  reactor_.is_inside = false;
  reactor_.inside.store(0, std::memory_order_relaxed);
}

ReactorState::Tags::Tags() noexcept
    : Waiter{[](Waiter& self, Slot& slot) noexcept { static_cast<Tags&>(self).add(slot.tag); }} {}

void ReactorState::Tags::keep(void* tag) { waiting_.push_back(tag); }

void ReactorState::Tags::begin(std::span<void*> out) noexcept {
  next_ = out.data();
  end_ = next_ + out.size();
  if (waiting_.empty()) [[likely]]
    return;
  const std::size_t count = std::min(out.size(), waiting_.size());
  next_ = std::copy_n(waiting_.begin(), count, next_);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace verbatim::detail
