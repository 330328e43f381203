// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/channel.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/timespec.hpp"
#include "channel/channel_state.hpp"
#include "channel/interrupt.hpp"
#include "channel/ready_record.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {

// ---- Canceller ----------------------------------------------------------------------------------

Canceller::Canceller(std::shared_ptr<detail::Interrupt> interrupt) noexcept
    : interrupt_(std::move(interrupt)) {}
void Canceller::cancel() const noexcept { end(detail::Interrupt::kCancelled); }
void Canceller::end(const Error& cause) const noexcept {
  if (interrupt_) interrupt_->raise(cause);  // Otherwise it was moved from.
}
void Canceller::end_if_unanswered(const Error& cause) const noexcept {
  if (interrupt_) interrupt_->await_no_answer(cause);
}

// ---- Channel ------------------------------------------------------------------------------------

detail::ChannelState& Channel::whole() const {
  return detail::whole(usable(std::source_location::current()));
}

void Channel::release(detail::ChannelCore& core) noexcept { detail::whole(core).abandon(); }

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this != &other) {
    if (state_ != &detail::gone_channel) release(*state_);
    state_ = std::exchange(other.state_, &detail::gone_channel);
  }
  return *this;
}

const std::optional<Error>& Channel::cause() const noexcept { return whole().cause; }
const QueuePairLimits& Channel::limits() const noexcept { return whole().queue_pair->limits(); }
const Agreement& Channel::agreement() const noexcept { return whole().queue_pair->agreement(); }
const ProtectionDomain& Channel::domain() const noexcept { return whole().domain; }
Canceller Channel::canceller() const noexcept { return Canceller{whole().interrupt}; }

namespace {

/// The result of an atomic arrives in memory that the channel owns.
template <class Work>
Result<std::uint64_t> run_atomic(Channel& channel, detail::ChannelState& state, Work&& make,
                                 Deadline deadline) {
  if (!state.atomic_result)
    state.atomic_result = VERBATIM_TRY(state.domain.allocate(sizeof(std::uint64_t)));
  const auto done = channel.run(make(state.atomic_result->scatter()), deadline);
  if (!done) return std::unexpected(done.error());
  std::uint64_t before = 0;
  std::memcpy(&before, state.atomic_result->bytes().data(), sizeof before);
  return before;
}

}  // namespace

Result<std::uint64_t> Channel::fetch_add(RemoteAtomic at, std::uint64_t add, Deadline deadline) {
  return run_atomic(
      *this, whole(),
      [&](ScatterElement into) { return FetchAdd{.into = std::move(into), .at = at, .add = add}; },
      deadline);
}

Result<std::uint64_t> Channel::compare_swap(RemoteAtomic at, std::uint64_t compare,
                                            std::uint64_t swap, Deadline deadline) {
  return run_atomic(
      *this, whole(),
      [&](ScatterElement into) {
        return CompareSwap{.into = std::move(into), .at = at, .compare = compare, .swap = swap};
      },
      deadline);
}

std::string to_string(const Channel& channel) {
  if (channel.state_ == &detail::gone_channel) return "channel, moved from";
  const detail::ChannelState& state = channel.whole();
  // A recycle() that failed may have left the channel without a queue pair.
  std::string text = "channel over " + (state.queue_pair ? to_string(*state.queue_pair)
                                                         : std::string{"no queue pair"});
  if (!state.cause) return text + ": open";
  return text + (state.is_over() ? ": ended: " : ": ending: ") + to_string(*state.cause);
}

// ---- Event loops --------------------------------------------------------------------------------

void detail::ChannelState::raise() noexcept {
  const std::uint64_t one = 1;
  // If the counter is full, the descriptor is readable already.
  if (watched.raised.get() >= 0 && ::write(watched.raised.get(), &one, sizeof one) < 0) return;
}

void detail::ChannelState::rearm() noexcept {
  if (watched.epoll.get() < 0) return;
  if (const short wanted = link_events(); wanted != watched.link_events) {
    // If the connection was closed, the descriptor has left the set already, and the failure is
    // harmless.
    epoll_event event{.events = static_cast<std::uint32_t>(wanted), .data = {.fd = link.fd()}};
    const int change = watched.link_events == 0 ? EPOLL_CTL_ADD
                       : wanted == 0            ? EPOLL_CTL_DEL
                                                : EPOLL_CTL_MOD;
    if (epoll_ctl(watched.epoll.get(), change, link.fd(), &event) == 0 || wanted == 0)
      watched.link_events = wanted;
  }
  // A timer that expires too early costs one poll(), and setting it later costs as much. So the
  // timer is only ever set to an earlier time.
  const Clock::time_point due = next_deadline();
  if (due >= watched.armed) return;
  const auto since_boot = std::max(due.time_since_epoch(), Clock::duration{1});  // 0 would stop it.
  const itimerspec when{.it_interval = {}, .it_value = to_timespec(since_boot)};
  if (timerfd_settime(watched.timer.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0)
    watched.armed = due;
}

Result<std::size_t> Channel::poll() noexcept {
  detail::ChannelState& state = whole();
  [[maybe_unused]] const detail::Entry entry{state};
  if (state.in_child()) return std::unexpected(*state.cause);  // The descriptors are the parent's.
  if (state.watched.epoll.get() >= 0) {
    [[maybe_unused]] const auto taken = state.core->events.wait(std::chrono::nanoseconds{0});
    std::uint64_t raised = 0;
    if (::read(state.watched.raised.get(), &raised, sizeof raised) < 0) raised = 0;  // No raise.
    // Arms before the last poll, so that no completion is missed. If the queue cannot be armed, it
    // is broken, and the poll reports that.
    [[maybe_unused]] const auto armed = state.core->arm();
  }
  ++state.watched.filed;  // No raise() is needed for what is filed now.
  const auto now = std::chrono::steady_clock::now();
  bool has_news = true;
  while (has_news) {  // Some devices return flushed work at once.
    int count = 0;
    while ((count = state.core->drain()) > 0) {
    }
    if (count < 0) state.end_at_once(state.core->broken());
    has_news = state.step(now);
  }
  const std::size_t filed = std::exchange(state.watched.filed, 0) - 1;
  ++state.watched.round;
  if (now >= state.watched.armed) {
    std::uint64_t times = 0;
    if (::read(state.watched.timer.get(), &times, sizeof times) < 0) times = 0;  // Not yet.
    state.watched.armed = std::chrono::steady_clock::time_point::max();
  }
  state.rearm();
  if (state.is_over() && filed == 0) return std::unexpected(*state.cause);
  if (state.is_over()) state.raise();  // The caller still has to see the end.
  return filed;
}

Result<int> Channel::fd() noexcept {
  detail::ChannelState& state = whole();
  if (state.in_child()) return std::unexpected(*state.cause);
  if (state.core->driver != nullptr)
    return std::unexpected(Error{.code = Errc::unsupported,
                                 .operation = "Channel::fd",
                                 .field = "the Reactor of the channel has one for all"});
  if (state.watched.epoll.get() < 0) {
    detail::FileDescriptor epoll{epoll_create1(EPOLL_CLOEXEC)};
    if (epoll.get() < 0) return std::unexpected(os_failure("epoll_create1", errno));
    detail::FileDescriptor raised{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (raised.get() < 0) return std::unexpected(os_failure("eventfd", errno));
    detail::FileDescriptor timer{timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    if (timer.get() < 0) return std::unexpected(os_failure("timerfd_create", errno));
    for (const int source :
         {state.core->events.fd(), state.interrupt->waker->fd(), raised.get(), timer.get()}) {
      if (source < 0) continue;  // The system had none left. The next call sees a cancel.
      epoll_event wanted{.events = EPOLLIN, .data = {.fd = source}};
      if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, source, &wanted) != 0)
        return std::unexpected(os_failure("epoll_ctl", errno));
    }
    detail::Raw::watch_events(state.core->context, raised.get());
    state.watched.raised = std::move(raised);
    state.watched.timer = std::move(timer);
    state.watched.epoll = std::move(epoll);
  }
  VERBATIM_TRY(state.core->arm());
  // Arming reports only what completes later. What is there already makes the descriptor readable,
  // too, and so does a broken queue, which poll() reports.
  [[maybe_unused]] const detail::Entry entry{state};
  if (state.core->drain() != 0 || state.watched.filed > 0) state.raise();
  state.rearm();
  return state.watched.epoll.get();
}

std::uint32_t Channel::free_sends() const noexcept { return detail::credit(whole().sends); }
std::uint64_t Channel::dropped_messages() const noexcept { return whole().dropped_messages; }
std::uint32_t Channel::free_receives() const noexcept { return detail::credit(whole().receives); }

// ---- Meeting and parting ------------------------------------------------------------------------

ReadyRecord Channel::ready_record() const noexcept {
  const QueuePair& connected = *whole().queue_pair;
  return detail::encode_ready(connected.endpoint().nonce, connected.agreement().remote_nonce);
}

Result<void> Channel::confirm(std::span<const std::byte> peer_record) const noexcept {
  const QueuePair& connected = *whole().queue_pair;
  return detail::check_ready(peer_record, connected.endpoint().nonce,
                             connected.agreement().remote_nonce);
}

void Channel::cancel_on(const std::stop_token& token) {
  detail::ChannelState& state = whole();
  state.stop.reset();
  state.stop.emplace(token, [interrupt = state.interrupt] { interrupt->raise(); });
}

Result<void> Channel::finish_sends(Deadline deadline) noexcept {
  detail::ChannelState& state = whole();
  detail::Patience patience{state, deadline};
  const bool finished = state.finish_sends(patience);
  if (state.cause) return std::unexpected(*state.cause);
  if (!finished) return std::unexpected(state.late("finish_sends", state.awaits_receive()));
  return {};
}

bool Channel::is_over() const noexcept { return whole().is_over(); }
void Channel::start_close(Deadline deadline) noexcept { whole().start_close(deadline); }

Result<void> Channel::close(Deadline deadline) noexcept {
  detail::ChannelState& state = whole();
  state.start_close(deadline);
  state.see_it_end();
  // The peer closed before we began to, which is fine. Otherwise it took sends of ours with it.
  if (state.cause == Errc::peer_closed && !state.leave.has_begun()) return {};
  if (state.cause != Errc::closed) return std::unexpected(*state.cause);
  return state.leave.take_result();
}

}  // namespace verbatim
