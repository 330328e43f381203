// SPDX-License-Identifier: MIT OR Apache-2.0
// The peer's end, as the connection beside the channel tells it.
//
// The device of a peer that is gone just does not answer: a send ends after its retries, a receive
// never. The connection knows at once. What had arrived wins: the peer's end counts when nothing of
// it came for kGrace, so that completions on their way are filed first.
#include <poll.h>

#include "channel/channel_state.hpp"

namespace verbatim::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// While somebody spins or polls: a look is a system call. Sleepers are woken by the connection.
constexpr auto kLinkInterval = std::chrono::milliseconds{2};
constexpr auto kGrace = std::chrono::milliseconds{2};
/// A request may fail before the connection's end has come here.
constexpr int kNewsMs = 20;

bool tells_end(LinkState state) noexcept {
  return state == LinkState::leaving || state == LinkState::finished || state == LinkState::lost;
}

Error end_of_peer(const Link& link) noexcept {
  if (link.state() != LinkState::lost) return {.code = Errc::peer_closed, .operation = "link"};
  Error lost = link.cause().value_or(Error{.code = Errc::closed, .operation = "link"});
  if (lost == Errc::closed) lost.code = Errc::peer_lost;
  return lost;
}

}  // namespace

bool ChannelState::heed_link(Clock::time_point now) noexcept {
  if (cause || link.state() == LinkState::none || now < next_look_) return false;
  next_look_ = now + kLinkInterval;
  const LinkState seen = link.look();
  if (!tells_end(seen)) return false;
  // It serves our sends until we are done, too.
  if (seen == LinkState::leaving && busy(sends)) return false;
  if (gone_since_ == Clock::time_point{}) gone_since_ = now;
  if (now - gone_since_ < kGrace) return false;
  expire(end_of_peer(link));
  return true;
}

/// A failure, with what is known of its reason besides the status: the peer's end, or trouble with
/// the port.
Error ChannelState::named(const Error& failure) noexcept {
  const WorkStatus status = status_of(failure);
  const bool may_be_gone = status == WorkStatus::retry_exceeded || status == WorkStatus::flushed ||
                           status == WorkStatus::remote_aborted;
  if (failure == Errc::work_failed && may_be_gone && link.state() != LinkState::none) {
    if (!tells_end(link.look())) {
      pollfd news{.fd = link.fd(), .events = POLLIN, .revents = 0};
      [[maybe_unused]] const int came = ::poll(&news, 1, kNewsMs);
    }
    if (tells_end(link.look())) return end_of_peer(link);
  }
  const auto trouble = path_trouble(queue_pair ? queue_pair->events() : EventFlags{});
  return trouble ? failure.with_text(to_string(*trouble)) : failure;
}

}  // namespace verbatim::detail
