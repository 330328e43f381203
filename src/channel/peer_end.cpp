// SPDX-License-Identifier: MIT OR Apache-2.0
// The peer's end, which the connection beside the channel reports, or a caller of Canceller::end().
//
// The device of a peer that is gone simply does not answer. A send ends after its retries, a
// receive never. The connection reports the end at once. But what had already arrived comes first:
// the peer's end counts only when nothing has arrived from it for kGrace, so that completions on
// their way are filed before.
#include "channel/channel_state.hpp"
#include "channel/interrupt.hpp"
#include "channel/work_failure.hpp"

namespace verbatim::detail {
namespace {

/// How often a thread that spins or polls looks at the connection, because each look is a system
/// call. The connection wakes threads that sleep.
constexpr auto kLinkInterval = std::chrono::milliseconds{2};
/// A request may fail before the end of the connection is visible here.
constexpr auto kNews = std::chrono::milliseconds{20};

bool tells_end(LinkState state) noexcept {
  return state == LinkState::leaving || state == LinkState::finished || state == LinkState::lost;
}

Error end_of_peer(const Link& link) noexcept {
  if (link.state() != LinkState::lost) return {.code = Errc::peer_closed, .operation = "link"};
  Error lost = link.cause().value_or(Error{.code = Errc::closed, .operation = "link"});
  if (lost == Errc::closed) lost.code = Errc::peer_lost;
  return lost;
}

/// Whether a peer that has gone away could have caused this failure.
bool may_be_gone(const Error& failure) noexcept {
  if (failure == Errc::peer_lost) return true;  // The keepalive reported it.
  return failure == Errc::work_failed && is_unanswered(status_of(failure));
}

}  // namespace

bool ChannelState::heed_link(Clock::time_point now) noexcept {
  if (link.state() == LinkState::none || now < next_look_) return false;
  next_look_ = now + kLinkInterval;
  const LinkState seen = link.look();
  if (!tells_end(seen)) return false;
  if (seen == LinkState::leaving && busy(sends)) {
    ending.peer_gone = {};  // It serves our sends until we are done, too.
    return false;
  }
  if (ending.peer_gone == Clock::time_point{}) ending.peer_gone = now;
  if (now - ending.peer_gone < kGrace) return false;
  begin_end(end_of_peer(link));
  return true;
}

/// Ends the channel with what is known about the reason of the failure besides the status: the
/// peer's end, or trouble with the port. It may have to wait for news of the peer's end.
bool ChannelState::heed_failure(Clock::time_point now) noexcept {
  const bool has_link = link.state() != LinkState::none;
  if (may_be_gone(*ending.failure) && (has_link || options.news_timeout.count() > 0)) {
    if (has_link && tells_end(link.look())) {
      begin_end(end_of_peer(link));
      return true;
    }
    if (interrupted.load()) {
      begin_end(interrupt->told());
      return true;
    }
    if (const auto cause_of_silence = interrupt->cause_of_silence()) {
      begin_end(*cause_of_silence);
      return true;
    }
    if (now == Clock::time_point{}) now = Clock::now();
    if (ending.news_end == Clock::time_point{})
      ending.news_end = now + std::max<std::chrono::nanoseconds>(kNews, options.news_timeout);
    if (now < ending.news_end) return false;
  }
  const auto trouble = path_trouble(queue_pair ? queue_pair->events() : EventFlags{});
  begin_end(trouble ? ending.failure->with_text(to_string(*trouble)) : *ending.failure);
  return true;
}

}  // namespace verbatim::detail
