// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/leave.hpp"

#include <utility>

#include "channel/channel_state.hpp"

namespace verbatim::detail {

Leave::Leave(ChannelState& state, Link link) noexcept : state_(state), link_(std::move(link)) {}

bool Leave::step() noexcept {
  for (;;) {
    const Stage before = stage_;
    if (state_.cause) stage_ = Stage::over;
    switch (stage_) {
      case Stage::finishing: stage_ = finish_sends(); break;
      case Stage::telling: stage_ = tell(); break;
      case Stage::hearing: stage_ = hear(); break;
      case Stage::over: return true;
    }
    if (stage_ == before) return false;
  }
}

pollfd Leave::wanted() const noexcept {
  if (stage_ == Stage::telling) return {.fd = link_.fd(), .events = POLLOUT, .revents = 0};
  if (stage_ == Stage::hearing) return {.fd = link_.fd(), .events = POLLIN, .revents = 0};
  return {.fd = -1, .events = 0, .revents = 0};
}

Error Leave::late() const noexcept {
  return {.code = Errc::timed_out,
          .operation = "close",
          .field = stage_ == Stage::hearing ? "the peer's done" : ""};
}

Leave::Stage Leave::end(const Result<void>& how) noexcept {
  // A peer whose connection has ended is done.
  if (how || how.error() != Errc::closed) result_ = how;
  return Stage::over;
}

Leave::Stage Leave::finish_sends() noexcept {
  if (state_.busy(state_.sends)) return Stage::finishing;
  state_.heed_interrupts();  // The last one may have failed.
  if (state_.cause || link_.state() == LinkState::none) return Stage::over;
  return Stage::telling;
}

Leave::Stage Leave::tell() noexcept {
  if (link_.say_done()) return Stage::hearing;
  const LinkState seen = link_.look();
  return seen == LinkState::finished || seen == LinkState::lost ? hear() : Stage::telling;
}

Leave::Stage Leave::hear() noexcept {
  switch (link_.look()) {
    case LinkState::open: return Stage::hearing;
    case LinkState::lost: return end(std::unexpected(*link_.cause()));
    default: return end({});
  }
}

Result<void> Leave::answer() noexcept {
  // A peer that is gone does not wait for it.
  [[maybe_unused]] const bool said = link_.say_done();
  return {};
}

}  // namespace verbatim::detail
