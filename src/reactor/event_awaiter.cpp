// SPDX-License-Identifier: MIT OR Apache-2.0
// Coroutines that wait for a time or a descriptor.
#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/clock.hpp"
#include "reactor/reactor_state.hpp"

namespace verbatim::detail {

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
  reactor_.core->call_at(*this, deadline_);
  return true;
}

bool EventAwaiter::watch() noexcept {
  int failed = reactor_.watch_source(*this, descriptor_, 0, events_);
  if (failed == EEXIST) {  // Another coroutine waits for it, too.
    duplicate_ = FileDescriptor{fcntl(descriptor_, F_DUPFD_CLOEXEC, 0)};
    descriptor_ = duplicate_.get();
    failed = descriptor_ < 0 ? errno : reactor_.watch_source(*this, descriptor_, 0, events_);
  }
  // EPERM: a descriptor that epoll cannot watch, such as a file, is always ready.
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

}  // namespace verbatim::detail
