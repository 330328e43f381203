// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/leave.hpp"

#include <poll.h>

#include "channel/channel_state.hpp"

namespace verbatim::detail {

void Leave::begin(Time deadline) noexcept {
  deadline_ = deadline;
  if (stage_ == Stage::none) stage_ = Stage::finishing;
}

bool Leave::step(ChannelState& state, Time now) noexcept {
  for (Stage before = Stage::none; stage_ != before && stage_ != Stage::over;) {
    before = stage_;
    switch (stage_) {
      case Stage::finishing: stage_ = finish_sends(state); break;
      case Stage::telling: stage_ = tell(state); break;
      case Stage::hearing: stage_ = hear(state); break;
      case Stage::none:
      case Stage::over: break;
    }
  }
  if (stage_ != Stage::over && now >= deadline_) {
    Error late = ChannelState::late("close", state.awaits_receive());
    if (stage_ == Stage::hearing) late.field = "the peer's done";
    result_ = std::unexpected(late);
    stage_ = Stage::over;
  }
  return stage_ == Stage::over;
}

short Leave::wanted() const noexcept {
  if (stage_ == Stage::telling) return POLLOUT;
  return stage_ == Stage::hearing ? POLLIN : 0;
}

Leave::Stage Leave::end(const Result<void>& how) noexcept {
  // A peer whose connection has ended is done too.
  if (how || how.error() != Errc::closed) result_ = how;
  return Stage::over;
}

Leave::Stage Leave::finish_sends(const ChannelState& state) noexcept {
  if (state.busy(state.sends)) return Stage::finishing;
  return state.link.state() == LinkState::none ? Stage::over : Stage::telling;
}

Leave::Stage Leave::tell(ChannelState& state) noexcept {
  if (state.link.say_done()) return Stage::hearing;
  const LinkState seen = state.link.look();
  return seen == LinkState::finished || seen == LinkState::lost ? hear(state) : Stage::telling;
}

Leave::Stage Leave::hear(ChannelState& state) noexcept {
  switch (state.link.look()) {
    case LinkState::open: return Stage::hearing;
    case LinkState::lost: return end(std::unexpected(*state.link.cause()));
    default: return end({});
  }
}

}  // namespace verbatim::detail
