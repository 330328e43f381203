// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/leave.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/frame.hpp"

namespace verbatim::detail {
namespace {

/// So long is a frame without payload.
constexpr int kDoneBytes = 8;
/// What is not there at once is waited for by who drives the steps.
constexpr BoundedCall kAtOnce{.operation = "close", .deadline = {}};

}  // namespace

Leave::Leave(ChannelState& state, FileDescriptor link) noexcept
    : state_(state), link_(std::move(link)) {
  // So that a part of the peer's frame wakes nobody. If it cannot be set, it does.
  if (link_.get() >= 0)
    setsockopt(link_.get(), SOL_SOCKET, SO_RCVLOWAT, &kDoneBytes, sizeof kDoneBytes);
}

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
  if (stage_ == Stage::telling) return {.fd = link_.get(), .events = POLLOUT, .revents = 0};
  if (stage_ == Stage::hearing) return {.fd = link_.get(), .events = POLLIN, .revents = 0};
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
  if (state_.cause || link_.get() < 0) return Stage::over;
  return Stage::telling;
}

Leave::Stage Leave::tell() noexcept {
  const auto told = send_frame(link_.get(), FrameKind::done, {}, kAtOnce);
  if (told) return Stage::hearing;
  const bool is_full = told.error() == Errc::timed_out && told.error().value == 0;
  return is_full ? Stage::telling : end(told);
}

Leave::Stage Leave::hear() noexcept {
  std::array<std::byte, kDoneBytes> seen;
  const ssize_t there = recv(link_.get(), seen.data(), seen.size(), MSG_PEEK | MSG_DONTWAIT);
  const bool nothing = there < 0 && (errno == EAGAIN || errno == EINTR);
  if (nothing || (there > 0 && there < kDoneBytes)) return Stage::hearing;
  const auto heard = receive_frame(link_.get(), FrameKind::done, {}, kAtOnce);
  return end(heard ? Result<void>{} : std::unexpected(heard.error()));
}

}  // namespace verbatim::detail
