// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel that one thread drives together with many others: when it is stepped, and who is woken
// then.
#include <algorithm>
#include <chrono>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/clock.hpp"
#include "channel/interrupt.hpp"
#include "channel/slot_states.hpp"

namespace verbatim::detail {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Wakeups no_wakeups{};

void look_earlier(ChannelCore& channel, Slot& slot) noexcept {
  check(channel.wakeups != &no_wakeups, "co_await: the channel is on no Reactor");
  whole(channel).look_by(slot);
}

bool is_to_come(ChannelCore& channel, const Slot& slot, std::uint64_t id) noexcept {
  return slot.id == id && !whole(channel).is_settled(slot);
}

void wake_at_end_of(ChannelCore& channel, Slot& slot, std::uintptr_t waiter,
                    Deadline deadline) noexcept {
  ChannelState& state = whole(channel);
  check(slot.waiter == 0, "co_await: another coroutine waits for the same operation");
  if (deadline.kind() == Deadline::Kind::own) deadline = Deadline{state.options.timeout};
  const Nanoseconds end = end_of(deadline);
  if (slot.state != SlotState::batch) return wake_at_end(channel, slot, waiter, end);
  slot.waiter = waiter;
  slot.deadline = end;
  if (end < channel.next_look) look_earlier(channel, slot);
}

void withdraw(Slot& slot, std::uint64_t id) noexcept {
  if (slot.id != id) return;
  slot.waiter = 0;
  if (slot.state == SlotState::awaited || slot.state == SlotState::noticed)
    slot.state = SlotState::flying;
}

bool is_over(ChannelCore& channel) noexcept { return whole(channel).is_over(); }

void wake_when_over(ChannelCore& channel, std::uintptr_t waiter) noexcept {
  ChannelState& state = whole(channel);
  check(state.is_driven(), "co_await: the channel is on no Reactor");
  Slot& marker = state.sends.first[state.sends.count];
  check(waiter == 0 || marker.waiter == 0, "co_await: another coroutine waits for the end already");
  marker.waiter = waiter;
}

void cancel(ChannelCore& channel) noexcept { whole(channel).interrupt->raise(); }

Driving::Clockwork::Clockwork(ChannelState& of) noexcept
    : Timer(
          [](Timer& self) noexcept { static_cast<Clockwork&>(self).channel.look_at_deadlines(); }),
      channel(of) {}

Driving::LinkSource::LinkSource(ChannelState& of) noexcept
    : EventSource{[](EventSource& self, std::uint32_t) noexcept {
        ChannelState& told = static_cast<LinkSource&>(self).channel;
        told.link_is_ready();
        told.attend(to_time(told.core->wakeups.now));
      }},
      channel(of) {}

void ChannelState::join_core() noexcept {
  wakeups = &core->wakeups;
  // The clock may be read a little late, so allow an eighth more. Then no wait ends early.
  const auto limit = static_cast<Nanoseconds>(options.timeout.count());
  sends.patience = std::min(limit + limit / 8, kLongest);
  receives.patience = kLongest;
  driving.after = std::exchange(core->channels, this);
  if (driving.after != nullptr) driving.after->driving.before = this;
  core->timers.make_room(++core->channel_count);
}

void ChannelState::part_from_driver() noexcept {
  if (driving.is_left) {  // Nobody else waits for its end.
    expire({.code = Errc::closed, .operation = "close"});
    attend(Clock::now());
    return;
  }
  leave_core();
}

void ChannelState::leave_core() noexcept {
  if (!is_driven()) return;
  stop_watching();
  core->timers.remove(driving.timer);
  wakeups = &no_wakeups;
  next_look = kNever;
  (driving.before != nullptr ? driving.before->driving.after : core->channels) = driving.after;
  if (driving.after != nullptr) driving.after->driving.before = driving.before;
  --core->channel_count;
  if (!driving.is_troubled) return;
  ChannelState** link_to = &core->troubled;
  while (*link_to != this) link_to = &(*link_to)->driving.next_troubled;
  *link_to = driving.next_troubled;
  driving.is_troubled = false;
}

/// Called outside the driver's loop, so the driver's descriptor has to become readable.
void ChannelState::wake_driver() noexcept {
  if (!core->driver->is_inside) core->waker->wake();
}

void ChannelState::be_attended() noexcept {
  if (core->driver == nullptr || driving.is_troubled) return;
  wake_driver();
  driving.is_troubled = true;
  driving.next_troubled = std::exchange(core->troubled, this);
  core->wakeups.attention = true;
}

void ChannelState::look_by(Slot& slot) noexcept {
  if (is_parting()) {  // next_look stays, so that every wait comes here.
    if (slot.state == SlotState::awaited) slot.state = SlotState::noticed;
    core->timers.set(driving.timer, std::min(driving.timer.when, slot.deadline));
    return;
  }
  next_look = slot.deadline;
  set_timer();
}

void ChannelState::notice_sends() noexcept {
  if (core->driver == nullptr) return;
  next_look = kNever;
  for (Slot& slot : slots_of(sends))
    if (slot.state == SlotState::awaited) slot.state = SlotState::noticed;
}

/// Returns the slot with the earliest deadline that somebody waits for, or null.
const Slot* ChannelState::first_awaited() const noexcept {
  const Slot* first = nullptr;
  const auto is_awaited = [](const Slot& slot) {
    return slot.state == SlotState::awaited || slot.state == SlotState::noticed ||
           (slot.state == SlotState::batch && slot.waiter != 0);
  };
  for (const Slot& slot : run)
    if (is_awaited(slot) && (first == nullptr || slot.deadline < first->deadline)) first = &slot;
  return first;
}

void ChannelState::set_timer() noexcept {
  // Once the channel is ending, the deadlines of single waits no longer count.
  Nanoseconds look = is_ending() ? kNever : next_look;
  if (is_parting() && !is_ending())
    if (const Slot* const first = first_awaited()) look = first->deadline;
  const Nanoseconds before = core->timers.first();
  core->timers.set(driving.timer, std::min(look, to_number(next_deadline())));
  if (core->timers.first() < before) wake_driver();
}

void ChannelState::look_at_deadlines() noexcept {
  const Nanoseconds now = core->wakeups.now;
  const Slot* const first = first_awaited();
  next_look = first == nullptr || is_parting() ? kNever : first->deadline;
  // Whatever has arrived was filed before this.
  if (first != nullptr && first->deadline <= now && !is_ending())
    begin_end(late("wait", awaits_receive(*first)));
  attend(to_time(now));
}

void ChannelState::attend(Clock::time_point now) noexcept {
  while (step(now)) {
  }
  if (is_over() && driving.is_left) {
    ending.abandoned = true;
    ending.parked =
        static_cast<std::uint32_t>(std::ranges::count(run, SlotState::parked, &Slot::state));
    drop_link();  // Last, because it shows the peer that we are gone.
    leave_core();
    if (ending.parked == 0) delete this;  // Otherwise the last take() does it.
    return;
  }
  if (is_over()) next_look = kNever;
  set_timer();
  watch_link();
}

void ChannelState::watch_link() noexcept {
  const short wanted = link_events();
  const int fd = wanted != 0 ? link.fd() : -1;
  Driving::LinkSource& source = driving.link;
  if (core->driver == nullptr) return;
  if (fd == source.fd && wanted == source.events) return;
  Driver& driver = *core->driver;
  if (source.fd != fd) stop_watching();
  if (fd >= 0) driver.watch(driver, source, fd, source.events, wanted);
  source.fd = fd;
  source.events = wanted;
}

void ChannelState::stop_watching() noexcept {
  Driving::LinkSource& source = driving.link;
  if (source.fd >= 0 && core->driver != nullptr)
    core->driver->watch(*core->driver, source, source.fd, source.events, 0);
  source.fd = -1;
  source.events = 0;
}

void ChannelState::drop_link() noexcept {
  stop_watching();
  link = Link{};
}

void ChannelState::keep_link(Link met) noexcept {
  link = std::move(met);
  if (core->driver != nullptr) watch_link();
}

void ChannelState::leave_to_driver() noexcept {
  driving.is_left = true;
  notice_sends();
  stop.reset();
  const Clock::time_point now = Clock::now();
  driving.left_end = end_of(options.flush_timeout, now);
  attend(now);
}

bool ChannelState::step_left(Clock::time_point now) noexcept {
  if (busy(sends) && now < driving.left_end) return false;
  begin_end({.code = Errc::closed, .operation = "close"});
  return true;
}

}  // namespace verbatim::detail
