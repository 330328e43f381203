// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/leave.hpp"

#include <poll.h>

#include <algorithm>

#include "channel/frame.hpp"
#include "channel/interrupt.hpp"
#include "channel/patience.hpp"
#include "channel/tcp.hpp"
#include "provider/fork_guard.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// Until the peer speaks, the device has something for us, or somebody interrupts.
void sleep(ChannelState& state, int link, Clock::time_point deadline) noexcept {
  if (state.completions.arm() && state.drain() != 0) return;
  const auto left = std::clamp<Clock::duration>(deadline - Clock::now(), {}, Patience::kNap);
  const timespec time{.tv_sec = 0, .tv_nsec = left.count()};
  pollfd sources[] = {{.fd = link, .events = POLLIN, .revents = 0},
                      {.fd = state.events.fd(), .events = POLLIN, .revents = 0},
                      {.fd = state.interrupt->fd, .events = POLLIN, .revents = 0}};
  if (ppoll(sources, 3, &time, nullptr) <= 0 || sources[1].revents == 0) return;
  state.acknowledge_events();
}

Result<void> exchange_done(ChannelState& state, int link, const BoundedCall& call) noexcept {
  VERBATIM_TRY(send_frame(link, FrameKind::done, {}, call));
  // Not in one long wait: some devices move what the peer sends only while we look at them.
  for (;;) {
    while (state.drain() > 0) {
    }
    if (state.heed_interrupts() || state.cause) return {};
    if (wait_until_ready(link, POLLIN, Clock::now())) {
      static_cast<void>(VERBATIM_TRY(receive_frame(link, FrameKind::done, {}, call)));
      return {};
    }
    if (Clock::now() >= call.deadline)
      return std::unexpected(
          Error{.code = Errc::timed_out, .operation = call.operation, .field = "the peer's done"});
    sleep(state, link, call.deadline);
  }
}

}  // namespace

Result<void> take_leave(ChannelState& state, int link, Clock::time_point deadline) noexcept {
  // The connection is the parent's, as the channel is.
  if (is_forked(state.raw->context))
    return std::unexpected(Error{.code = Errc::forked, .operation = "close"});
  const auto parted = exchange_done(state, link, {.operation = "close", .deadline = deadline});
  if (!parted && parted.error() == Errc::closed) return {};
  return parted;
}

}  // namespace verbatim::detail
