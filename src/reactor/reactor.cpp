// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/reactor/reactor.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/library_thread.hpp"
#include "base/relax_processor.hpp"
#include "base/timespec.hpp"
#include "channel/channel_state.hpp"
#include "channel/dialling.hpp"
#include "channel/shared_receives.hpp"
#include "reactor/reactor_state.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/verbs/detail/access.hpp"

namespace verbatim {
namespace detail {
namespace {

using Clock = std::chrono::steady_clock;

/// From here on a look in vain gives the processor away: whoever has something for us may need it.
constexpr std::uint64_t kYieldAfter = 2000;
/// Of one poll(): a busy reactor leaves the rest to the next, so that others of the loop have a
/// turn.
constexpr std::size_t kMostLooks = 64;
/// While it is busy, other descriptors are looked at once in so many turns.
constexpr std::uint64_t kLookAround = 64;

std::uint64_t clock_now() noexcept {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}
std::uint64_t in_nanoseconds(std::chrono::nanoseconds time) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}
/// Not of the channel's own.
Nanoseconds end_of(Deadline deadline) noexcept {
  switch (deadline.kind()) {
    case Deadline::Kind::relative:
      return std::min(clock_now() + static_cast<Nanoseconds>(deadline.limit().count()), kLongest);
    case Deadline::Kind::absolute:
      return static_cast<Nanoseconds>(deadline.when().time_since_epoch().count());
    case Deadline::Kind::own:
    case Deadline::Kind::never: break;
  }
  return kLongest;
}

Root make_root(ReactorState&, Task<void> task) { co_await std::move(task); }

std::coroutine_handle<Root::promise_type> handle_of(Root::promise_type& root) noexcept {
  return std::coroutine_handle<Root::promise_type>::from_promise(root);
}

}  // namespace

// ---- Coroutines that nobody awaits
// ----------------------------------------------------------------

Root::promise_type::promise_type(ReactorState& on, Task<void>&) noexcept : reactor(on) {
  after = std::exchange(on.roots, this);
  on.has_no_roots = false;
  if (after != nullptr) after->before = this;
}

void Root::promise_type::leave() noexcept {
  (before != nullptr ? before->after : reactor.roots) = after;
  if (after != nullptr) after->before = before;
  reactor.has_no_roots = reactor.roots == nullptr;
}

void Root::promise_type::Leave::await_suspend(std::coroutine_handle<promise_type> done) noexcept {
  promise_type& self = done.promise();
  self.leave();
  if (self.over != nullptr) *self.over = true;
  if (self.thrown && self.reactor.thrown)
    log(LogLevel::warning, "an exception of a second task is lost: run() throws the first");
  if (self.thrown && !self.reactor.thrown) self.reactor.call_off(std::move(self.thrown));
  done.destroy();
}

// ---- The loop
// ---------------------------------------------------------------------------------------

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
                    // If it was set anew meanwhile, there is nothing to read.
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
    handle_of(root).destroy();
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

/// Channels first, so that who is woken learns why.
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

/// Between two readings there is at most one look in vain, or kLookAround that were not.
void ReactorState::read_clock() noexcept {
  const std::uint64_t now = clock_now();
  const std::uint64_t since = now - std::exchange(core->wakeups.now, now);
  // Who was elsewhere meanwhile kept nobody waiting in here.
  const bool was_inside = !std::exchange(was_outside_, false);
  if (since < warn_after_ || now < next_warning_ || !was_inside) [[likely]]
    return;
  next_warning_ = now + 1'000'000'000;
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
  // The clock is dearer than a look.
  if (count == 0 && idle_since_ != 0 && ++idle_turns_ % 4 != 0) return false;
  read_clock();
  // Whoever went on may have been the last one, or have work for us: no sleep before another look.
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
  const timespec time = to_timespec(std::chrono::nanoseconds{std::min(longest, kLongest)});
  const int most = static_cast<int>(raised_.size());
  int count = epoll_pwait2(epoll.get(), raised_.data(), most, &time, nullptr);
  if (count < 0 && errno == ENOSYS) {  // Linux before 5.11.
    const std::uint64_t milliseconds =
        std::min<std::uint64_t>((longest + 999'999) / 1'000'000, 60'000);
    count = epoll_wait(epoll.get(), raised_.data(), most, static_cast<int>(milliseconds));
  }
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
  // A sleep that was shorter than we may spin was dearer than spinning.
  const std::uint64_t most = in_nanoseconds(options.spin);
  spin_ = core->wakeups.now - before < 4 * most
              ? std::min(most, std::max<std::uint64_t>(2 * spin_, 1000))
              : spin_ / 2;
}

bool ReactorState::sleep() noexcept {
  // A queue that is broken has nothing to tell; timers and descriptors have.
  if (!core->arm() && !is_broken_) return false;
  if (look()) return false;  // It came between the last look and the arming.
  const std::uint64_t first = core->timers.first();
  look_around(first > core->wakeups.now ? first - core->wakeups.now : 0);
  return true;
}

std::size_t ReactorState::arm() noexcept {
  std::size_t count = 0;
  look_around(0);  // Takes an event that is there: only then the next one is raised.
  static_cast<void>(core->arm());
  while (count < kMostLooks && look()) ++count;
  set_alarm();
  was_outside_ = true;
  return count;
}

void ReactorState::set_alarm() noexcept {
  const std::uint64_t first = core->timers.first();
  // One that rings too early costs a poll(), and setting it costs as much.
  if (!has_shown_fd || first >= alarm_at_) return;
  const auto time = static_cast<std::int64_t>(std::max<std::uint64_t>(first, 1));  // 0 stops it.
  const itimerspec when{.it_interval = {}, .it_value = to_timespec(std::chrono::nanoseconds{time})};
  if (timerfd_settime(alarm.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0) alarm_at_ = first;
}

bool ReactorState::run(const bool* over) {
  const Visit visit{*this};
  was_outside_ = true;
  const bool& is_over = over != nullptr ? *over : has_no_roots;
  is_called_off = true;  // Perhaps, before.
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
  if (count >= kMostLooks) core->waker->wake();  // There may be more: fd() says so.
  return count;
}

std::size_t ReactorState::poll(std::span<void*> out) {
  const Visit visit{*this};
  tags.begin(out);
  for (std::size_t looks = 0; tags.count(out) == 0; ++looks) {
    if (looks == kMostLooks) {
      core->waker->wake();
      break;
    }
    if (look()) continue;
    if (arm() == 0) break;
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
}
ReactorState::Visit::~Visit() { reactor_.inside.store(0, std::memory_order_relaxed); }

// ---- Times and descriptors
// --------------------------------------------------------------------------

std::uint64_t end_of_wait(const ChannelCore& channel, const Slot& slot,
                          Deadline deadline) noexcept {
  if (deadline.kind() == Deadline::Kind::own) return channel.wakeups->now + slot.queue->patience;
  return end_of(deadline);
}

EventAwaiter::EventAwaiter(ReactorState& reactor, int descriptor, std::uint32_t events,
                           Deadline deadline) noexcept
    : EventSource{[](EventSource& self, std::uint32_t) noexcept {
        static_cast<EventAwaiter&>(self).go_on();
      }},
      Timer{[](Timer& self) noexcept {
        auto& event = static_cast<EventAwaiter&>(self);
        event.result_ = std::unexpected(Error{
            .code = Errc::timed_out, .operation = "Reactor::readable", .field = "descriptor"});
        event.go_on();
      }},
      reactor_(reactor),
      descriptor_(descriptor),
      events_(events),
      deadline_(deadline) {}

EventAwaiter::~EventAwaiter() {
  if (waiting_) leave();
}

bool EventAwaiter::await_suspend(std::coroutine_handle<> waiting) noexcept {
  if (events_ != 0 && !watch()) return false;
  waiting_ = waiting;
  const Nanoseconds end = end_of(deadline_);
  if (end < kLongest) reactor_.core->timers.set(*this, end);
  return true;
}

bool EventAwaiter::watch() noexcept {
  int failed = reactor_.watch_source(*this, descriptor_, 0, events_);
  if (failed == EEXIST) {  // Another coroutine waits for it, too.
    duplicate_ = FileDescriptor{fcntl(descriptor_, F_DUPFD_CLOEXEC, 0)};
    descriptor_ = duplicate_.get();
    failed = descriptor_ < 0 ? errno : reactor_.watch_source(*this, descriptor_, 0, events_);
  }
  // One that cannot be waited for, as a file, is always ready.
  if (failed != 0 && failed != EPERM)
    result_ = std::unexpected(os_failure("Reactor::readable", failed));
  return failed == 0;
}

void EventAwaiter::leave() noexcept {
  if (events_ != 0) reactor_.watch_source(*this, descriptor_, events_, 0);
  reactor_.core->timers.remove(*this);
}

void EventAwaiter::go_on() noexcept {
  leave();
  std::exchange(waiting_, nullptr).resume();
}

// ---- Tags
// -------------------------------------------------------------------------------------------

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

}  // namespace detail

// ---- Reactor
// ----------------------------------------------------------------------------------------

Result<Reactor> Reactor::create(const ProtectionDomain& domain, const ReactorOptions& options) {
  auto core = VERBATIM_TRY(detail::CompletionCore::create(
      domain.context(), 64, options.max_operations, CompletionQueueGrowth::resize));
  auto state = std::make_unique<detail::ReactorState>(std::move(core), options);
  VERBATIM_TRY(state->open());
  if (options.receives)
    state->core->shared_receives =
        VERBATIM_TRY(detail::SharedReceives::create(*state->core, domain, *options.receives));
  return Reactor{std::move(state)};
}

Reactor::Reactor(std::unique_ptr<detail::ReactorState> state) noexcept : state_(std::move(state)) {}
Reactor::Reactor(Reactor&&) noexcept = default;
Reactor& Reactor::operator=(Reactor&&) noexcept = default;
Reactor::~Reactor() = default;

Reactor::operator SharedCompletions() const noexcept { return SharedCompletions{state_->core}; }

void Reactor::run() { static_cast<void>(state_->run(nullptr)); }

bool Reactor::run_until_over(Task<void> task) {
  bool over = false;
  detail::Root::promise_type& root = *detail::make_root(*state_, std::move(task)).promise;
  root.over = &over;
  struct End {  // Also when something else is thrown.
    ~End() {
      if (over) return;
      root.leave();
      detail::handle_of(root).destroy();
    }
    const bool& over;
    detail::Root::promise_type& root;
  } const end{over, root};
  detail::handle_of(root).resume();
  return state_->run(&over);
}

void Reactor::spawn(Task<void> task) {
  const std::uintptr_t inside = state_->inside.load(std::memory_order_relaxed);
  check(inside == 0 || inside == detail::ReactorState::this_thread(),
        "Reactor::spawn(): another thread is in the reactor; submit() is for any thread");
  detail::handle_of(*detail::make_root(*state_, std::move(task)).promise).resume();
}

std::size_t Reactor::poll() { return state_->poll(); }
std::size_t Reactor::poll(std::span<void*> out) {
  check(!out.empty(), "Reactor::poll(): no room for a single tag");
  return state_->poll(out);
}

void Reactor::tell(detail::ChannelCore& channel, detail::Slot& slot, bool is_to_come, void* tag,
                   Deadline deadline) {
  if (!is_to_come) {
    state_->tags.add(tag);
    state_->core->waker->wake();  // Nothing else tells fd() of it.
    return;
  }
  slot.tag = tag;
  wake_at_end(channel, slot, detail::as_waiter(state_->tags), end_of_wait(channel, slot, deadline));
}

void Reactor::notify(Incoming& incoming, void* tag) {
  detail::Receiver& receiver = incoming.receiver_;
  if (receiver.is_ready()) {
    state_->tags.add(tag);
    state_->core->waker->wake();  // Nothing else tells fd() of it.
    return;
  }
  receiver.tag = tag;
  receiver.wake_with_news(detail::as_waiter(state_->tags));
}

std::uint32_t Reactor::free_receives() const noexcept {
  return state_->core->shared_receives != nullptr ? state_->core->shared_receives->free() : 0;
}

int Reactor::fd() noexcept {
  // What has come before counts, too: the first poll() arms.
  if (!std::exchange(state_->has_shown_fd, true)) state_->core->waker->wake();
  return state_->epoll.get();
}

detail::SleepAwaiter Reactor::sleep(std::chrono::nanoseconds time) noexcept {
  return {*state_, -1, 0, Deadline{time}};
}
detail::EventAwaiter Reactor::readable(int descriptor, Deadline deadline) noexcept {
  return {*state_, descriptor, EPOLLIN, deadline};
}
detail::EventAwaiter Reactor::writable(int descriptor, Deadline deadline) noexcept {
  return {*state_, descriptor, EPOLLOUT, deadline};
}

Task<Result<Connection>> Reactor::accept(const Listener& listener, Deadline deadline) {
  for (;;) {
    auto met = listener.try_accept();
    if (!met) co_return std::unexpected(met.error());
    if (*met) co_return std::move(**met);
    if (const auto ready = co_await readable(listener.fd(), deadline); !ready) {
      Error error = ready.error();
      error.operation = "accept";
      if (error == Errc::timed_out) error.field = "connection";
      co_return std::unexpected(error);
    }
  }
}

Task<Result<Connection>> Reactor::dial(ProtectionDomain domain, std::string address,
                                       DialOptions options) {
  options.channel.on = *this;
  // Shared with the thread that looks the name up, which may outlive us.
  const auto dialling = std::make_shared<detail::Dialling>(domain, address, options);
  if (!dialling->needs_lookup()) {
    if (auto found = dialling->look_up(); !found) co_return std::unexpected(found.error());
  } else {
    struct Lookup {
      detail::Waker done{};
      Result<void> found{};
    };
    const auto lookup = std::make_shared<Lookup>();
    if (lookup->done.fd() < 0) co_return std::unexpected(os_failure("dial", errno));
    try {
      start_library_thread([dialling, lookup] {
        lookup->found = dialling->look_up();
        lookup->done.wake();
      }).detach();
    } catch (const std::system_error& refused) {
      co_return std::unexpected(os_failure("pthread_create", refused.code().value()));
    }
    // The thread keeps to the deadline of the call.
    if (auto done = co_await readable(lookup->done.fd()); !done)
      co_return std::unexpected(done.error());
    if (!lookup->found) co_return std::unexpected(lookup->found.error());
  }
  for (;;) {
    const auto met = dialling->step();
    if (!met) co_return std::unexpected(met.error());
    if (*met) co_return std::move(*dialling).take();
    // That the time is over it finds out by itself.
    std::ignore = co_await detail::EventAwaiter{
        *state_, dialling->fd(),
        dialling->fd() < 0 ? 0 : static_cast<std::uint32_t>(dialling->wanted()),
        Deadline{dialling->due()}};
  }
}

void Reactor::stop() noexcept {
  state_->is_stopped = true;
  state_->core->waker->wake();
}

void Reactor::submit(std::function<void()> work) {
  {
    const std::lock_guard lock{state_->mutex};
    state_->submitted.push_back(std::move(work));
  }
  state_->core->waker->wake();
}

}  // namespace verbatim
