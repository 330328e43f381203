// SPDX-License-Identifier: MIT OR Apache-2.0
// What a channel does by itself, in steps that never wait, and when the next step is due.
#include <poll.h>

#include <algorithm>

#include "channel/channel_state.hpp"
#include "channel/interrupt.hpp"
#include "channel/slot_states.hpp"
#include "channel/work_failure.hpp"

namespace verbatim::detail {

bool ChannelState::step(Clock::time_point now) noexcept {
  if (is_over()) return false;
  if (ending.stage == Ending::Stage::flushing) return step_end(now);
  if (heed_interrupts(now)) return true;
  if (ending.failure) return false;  // Waits for news of the link; the rest no longer matters.
  if (driving.is_left) return step_left(now);
  if (keepalive.slot != nullptr) step_keepalive(now);
  if (!leave.has_begun()) return heed_link(now);
  if (!leave.step(*this, now)) return false;
  begin_end({.code = Errc::closed, .operation = "close"});
  return true;
}

Ending::Time ChannelState::next_deadline() const noexcept {
  if (is_over()) return Clock::time_point::max();
  if (ending.stage == Ending::Stage::flushing) return ending.flush_end;
  if (ending.failure) return ending.news_end;
  if (driving.is_left) return driving.left_end;
  Clock::time_point next = Clock::time_point::max();
  if (keepalive.slot != nullptr && !is_in_flight(keepalive.slot->state))
    next = std::min(next, keepalive.due);
  if (leave.has_begun()) return std::min(next, leave.deadline());
  if (ending.peer_gone != Clock::time_point{}) next = std::min(next, ending.peer_gone + kGrace);
  return next;
}

bool ChannelState::is_timed() const noexcept {
  return ending.stage == Ending::Stage::flushing || keepalive.slot != nullptr ||
         leave.has_begun() || link.state() != LinkState::none ||
         ending.news_end != Clock::time_point{};
}

short ChannelState::link_events() const noexcept {
  if (cause || driving.is_left || link.state() == LinkState::none) return 0;
  if (leave.has_begun()) return leave.wanted();
  // A connection that has shown the peer's end stays readable. From then on the clock decides.
  return ending.peer_gone == Clock::time_point{} ? POLLIN : 0;
}

bool ChannelState::heed_interrupts(Clock::time_point now) noexcept {
  if (cause) return false;
  if (ending.failure) return heed_failure(now);
  if (interrupted.load()) {
    begin_end(interrupt->told());
    return true;
  }
  constexpr EventFlags kFatal = EventType::queue_pair_fatal | EventType::queue_pair_request_error |
                                EventType::queue_pair_access_error;
  const EventFlags own = queue_pair ? queue_pair->events() : EventFlags{};
  const EventFlags queue = core->completions.events();
  const EventFlags device = core->context.events();
  if (own.has_any(kFatal) || !queue.empty() || device.has(EventType::device_fatal)) {
    begin_end({.code = Errc::device_failed,
               .operation = "async event",
               .field = "events",
               .value = (own | queue | device).bits});
    return true;
  }
  // Work was flushed without a reported reason. The queue pair is in the error state all the same.
  if (ending.gave_back) {
    begin_end({.code = Errc::work_failed,
               .operation = "work request",
               .field = name_of(WorkStatus::flushed),
               .value = static_cast<std::uint64_t>(WorkStatus::flushed)});
    return true;
  }
  return false;
}

}  // namespace verbatim::detail
