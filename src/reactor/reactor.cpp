// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/reactor/reactor.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/relax_processor.hpp"
#include "channel/channel_state.hpp"
#include "reactor/reactor_state.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/verbs/detail/access.hpp"

namespace verbatim {
namespace detail {
namespace {

using Clock = std::chrono::steady_clock;

/// From here on a look in vain gives the processor away: whoever has something for us may need it.
constexpr std::uint64_t kYieldAfter = 2000;
/// While it is busy, other descriptors are looked at once in so many turns.
constexpr std::uint64_t kLookAround = 64;

std::uint64_t clock_now() noexcept {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}
void clear(int eventfd) noexcept {
  std::uint64_t count = 0;
  if (::read(eventfd, &count, sizeof count) < 0) count = 0;  // Nothing was there.
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
  if (after != nullptr) after->before = this;
}

void Root::promise_type::leave() noexcept {
  (before != nullptr ? before->after : reactor.roots) = after;
  if (after != nullptr) after->before = before;
}

void Root::promise_type::Leave::await_suspend(std::coroutine_handle<promise_type> done) noexcept {
  promise_type& self = done.promise();
  self.leave();
  if (self.over != nullptr) *self.over = true;
  if (self.thrown && self.reactor.thrown)
    log(LogLevel::warning, "an exception of a second task is lost: run() throws the first");
  if (self.thrown && !self.reactor.thrown) self.reactor.thrown = std::move(self.thrown);
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
                          reactor.is_armed_ = false;
                        }),
      woken_(*this,
             [](EventSource& self, std::uint32_t) noexcept {
               ReactorState& reactor = static_cast<Signal&>(self).reactor;
               clear(reactor.core->waker->get());
               reactor.take_submitted();
               reactor.attend_all();  // Somebody may have cancelled one.
             }),
      device_said_(*this,
                   [](EventSource& self, std::uint32_t) noexcept {
                     ReactorState& reactor = static_cast<Signal&>(self).reactor;
                     clear(reactor.device_events.get());
                     reactor.attend_all();
                   }),
      spin_(static_cast<std::uint64_t>(std::max<std::int64_t>(chosen.spin.count(), 0))) {}

Result<void> ReactorState::open() {
  core->wakeups.now = clock_now();
  core->waker = std::make_shared<FileDescriptor>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll = FileDescriptor{epoll_create1(EPOLL_CLOEXEC)};
  device_events = FileDescriptor{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (core->waker->get() < 0 || epoll.get() < 0 || device_events.get() < 0)
    return std::unexpected(os_failure("Reactor::create", errno));
  watch_source(completions_came_, core->events.fd(), 0, EPOLLIN);
  watch_source(woken_, core->waker->get(), 0, EPOLLIN);
  watch_source(device_said_, device_events.get(), 0, EPOLLIN);
  Raw::watch_events(core->context, device_events.get());
  core->driver = this;
  return {};
}

ReactorState::~ReactorState() {
  while (roots != nullptr) {
    Root::promise_type& root = *roots;
    root.leave();
    handle_of(root).destroy();
  }
  if (device_events.get() >= 0) Raw::unwatch_events(core->context, device_events.get());
  core->driver = nullptr;
}

void ReactorState::watch_source(EventSource& source, int fd, std::uint32_t before,
                                std::uint32_t events) noexcept {
  epoll_event wanted{.events = events, .data = {.ptr = &source}};
  const int change = before == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  if (events == 0)
    for (epoll_event& each : left_)  // It may be gone before its turn.
      if (each.data.ptr == &source) each.data.ptr = nullptr;
  if (epoll_ctl(epoll.get(), change, fd, &wanted) != 0 && events != 0)
    log(LogLevel::warning, "a Reactor cannot watch a descriptor (epoll_ctl)");
}

void ReactorState::wake_up() const noexcept {
  const std::uint64_t one = 1;
  // A full counter is readable already.
  if (::write(core->waker->get(), &one, sizeof one) < 0) return;
}

bool ReactorState::look() noexcept {
  const int count = core->turn();
  if (core->wakeups.attention) [[unlikely]]
    settle();
  if (count > 0) [[likely]] {
    idle_since_ = 0;
    if (++busy_turns_ % kLookAround == 0) [[unlikely]] {
      core->wakeups.now = clock_now();
      run_timers();
      look_around(0);
    }
    return true;
  }
  return be_idle(count);
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

bool ReactorState::be_idle(int count) noexcept {
  if (count < 0)
    for (ChannelState* each = core->channels; each != nullptr; each = each->driving.after)
      if (!each->is_over()) each->end_at_once(core->broken());
  // The clock is dearer than a look.
  if (count == 0 && idle_since_ != 0 && ++idle_turns_ % 4 != 0) return false;
  core->wakeups.now = clock_now();
  run_timers();
  if (core->wakeups.attention) {
    settle();
    idle_since_ = 0;
    return true;
  }
  if (idle_since_ == 0) idle_since_ = core->wakeups.now;
  return false;
}

void ReactorState::run_timers() noexcept {
  const std::uint64_t now = core->wakeups.now;
  if (core->timers.first() > now) return;
  // What came in time counts, however late we look.
  while (core->drain() > 0) {
  }
  while (Timer* const timer = core->timers.take_due(now)) timer->due(*timer);
}

void ReactorState::attend_all() noexcept {
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
      if (!thrown) thrown = std::current_exception();
    }
  }
}

void ReactorState::look_around(int milliseconds) noexcept {
  const int count =
      epoll_wait(epoll.get(), raised_.data(), static_cast<int>(raised_.size()), milliseconds);
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
  const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(options.spin.count(), 0));
  spin_ = core->wakeups.now - before < 4 * most
              ? std::min(most, std::max<std::uint64_t>(2 * spin_, 1000))
              : spin_ / 2;
}

bool ReactorState::sleep() noexcept {
  if (!core->completions.arm()) return false;
  if (look()) return false;  // It came between the last look and the arming.
  const std::uint64_t first = core->timers.first();
  int milliseconds = -1;
  if (first != kNever) {
    const std::uint64_t left = first > core->wakeups.now ? first - core->wakeups.now : 0;
    milliseconds =
        static_cast<int>(std::min<std::uint64_t>((left + 999'999) / 1'000'000, 3'600'000));
  }
  look_around(milliseconds);
  return true;
}

std::size_t ReactorState::arm() noexcept {
  std::size_t count = 0;
  look_around(0);  // Takes an event that is there: only then the next one is raised.
  is_armed_ = core->completions.arm().has_value();
  while (look()) ++count;
  return count;
}

bool ReactorState::run(const bool* over) {
  while (over != nullptr ? !*over : roots != nullptr) {
    if (!look()) pause();
    if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
    if (is_stopped.exchange(false)) return false;
  }
  if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
  return true;
}

// ---- Times and descriptors
// --------------------------------------------------------------------------

std::uint64_t end_of_wait(const ChannelCore& channel, const Slot& slot,
                          Deadline deadline) noexcept {
  switch (deadline.kind()) {
    case Deadline::Kind::own: return channel.wakeups->now + slot.queue->patience;
    case Deadline::Kind::relative:
      return clock_now() + static_cast<std::uint64_t>(deadline.limit().count());
    case Deadline::Kind::absolute:
      return static_cast<std::uint64_t>(deadline.when().time_since_epoch().count());
    case Deadline::Kind::never: break;
  }
  return kLongest;
}

EventAwaiter::EventAwaiter(ReactorState& reactor, int descriptor, Deadline deadline) noexcept
    : EventSource{[](EventSource& self, std::uint32_t) noexcept {
        auto& event = static_cast<EventAwaiter&>(self);
        event.is_ready_ = true;
        event.go_on();
      }},
      Timer{[](Timer& self) noexcept { static_cast<EventAwaiter&>(self).go_on(); }},
      reactor_(reactor),
      descriptor_(descriptor),
      deadline_(deadline) {}

EventAwaiter::~EventAwaiter() {
  if (waiting_) leave();
}

void EventAwaiter::await_suspend(std::coroutine_handle<> waiting) noexcept {
  waiting_ = waiting;
  if (descriptor_ >= 0) reactor_.watch_source(*this, descriptor_, 0, EPOLLIN);
  if (deadline_.kind() == Deadline::Kind::relative)
    reactor_.core->timers.set(*this,
                              clock_now() + static_cast<std::uint64_t>(deadline_.limit().count()));
  else if (deadline_.kind() == Deadline::Kind::absolute)
    reactor_.core->timers.set(
        *this, static_cast<std::uint64_t>(deadline_.when().time_since_epoch().count()));
}

void EventAwaiter::leave() noexcept {
  if (descriptor_ >= 0) reactor_.watch_source(*this, descriptor_, EPOLLIN, 0);
  reactor_.core->timers.remove(*this);
}

void EventAwaiter::go_on() noexcept {
  leave();
  std::exchange(waiting_, nullptr).resume();
}

// ---- Tags
// -------------------------------------------------------------------------------------------

ReactorState::Tags::Tags() noexcept
    : Waiter{[](Waiter& self, Slot& slot) noexcept {
        static_cast<Tags&>(self).finished.push_back(slot.tag);
      }} {}

}  // namespace detail

// ---- Reactor
// ----------------------------------------------------------------------------------------

Result<Reactor> Reactor::create(const ProtectionDomain& domain, const ReactorOptions& options) {
  auto core = VERBATIM_TRY(detail::CompletionCore::create(
      domain.context(), 64, options.max_operations, CompletionQueueGrowth::resize));
  auto state = std::make_unique<detail::ReactorState>(std::move(core), options);
  VERBATIM_TRY(state->open());
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
  detail::handle_of(*detail::make_root(*state_, std::move(task)).promise).resume();
}

std::size_t Reactor::poll() {
  std::size_t count = 0;
  while (state_->look()) ++count;
  return count + state_->arm();
}

std::size_t Reactor::poll(std::span<void*> out) {
  std::vector<void*>& finished = state_->tags.finished;
  std::size_t& taken = state_->tags.taken;
  if (taken == finished.size() && !state_->look()) state_->arm();
  const std::size_t count = std::min(out.size(), finished.size() - taken);
  std::copy_n(finished.begin() + static_cast<std::ptrdiff_t>(taken), count, out.begin());
  taken += count;
  if (taken == finished.size()) {
    finished.clear();
    taken = 0;
  }
  return count;
}

void Reactor::tell(detail::ChannelCore& channel, detail::Slot& slot, bool is_to_come, void* tag,
                   Deadline deadline) {
  if (!is_to_come) {
    state_->tags.finished.push_back(tag);
    return;
  }
  slot.tag = tag;
  wake_at_end(channel, slot, detail::as_waiter(state_->tags), end_of_wait(channel, slot, deadline));
}

Result<int> Reactor::fd() {
  VERBATIM_TRY(state_->core->completions.arm());
  return state_->epoll.get();
}

detail::EventAwaiter Reactor::sleep(std::chrono::nanoseconds time) noexcept {
  return {*state_, -1, Deadline{time}};
}
detail::EventAwaiter Reactor::readable(int descriptor, Deadline deadline) noexcept {
  return {*state_, descriptor, deadline};
}

Task<Result<Connection>> Reactor::accept(const Listener& listener, Deadline deadline) {
  for (;;) {
    auto met = listener.try_accept();
    if (!met) co_return std::unexpected(met.error());
    if (*met) co_return std::move(**met);
    if (!co_await readable(listener.fd(), deadline))
      co_return std::unexpected(
          Error{.code = Errc::timed_out, .operation = "accept", .field = "connection"});
  }
}

void Reactor::stop() noexcept {
  state_->is_stopped = true;
  state_->wake_up();
}

void Reactor::submit(std::function<void()> work) {
  {
    const std::lock_guard lock{state_->mutex};
    state_->submitted.push_back(std::move(work));
  }
  state_->wake_up();
}

}  // namespace verbatim
