// SPDX-License-Identifier: MIT OR Apache-2.0
// A barrier that takes longer. The waiting rank yields the processor at first, and later sleeps. It
// looks after its channels, and listens to the session.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/timespec.hpp"
#include "channel/channel_state.hpp"
#include "channel/work_failure.hpp"
#include "network/barrier_state.hpp"
#include "verbatim/reactor/close.hpp"

namespace verbatim::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// For this long a waiting rank only yields the processor; after that it sleeps.
constexpr auto kYield = std::chrono::milliseconds{1};
constexpr auto kShortestNap = std::chrono::microseconds{50};
/// A notice does not wake a sleeper, which finds it when the nap is over.
constexpr auto kLongestNap = std::chrono::milliseconds{1};
/// Waking up takes about 20 us. If many ranks share a processor, the waiting ones must not keep it
/// from the one that they wait for. So each rank on the processor makes the longest nap longer by
/// this much.
constexpr auto kNapPerRank = std::chrono::microseconds{64};

Clock::duration longest_nap(const Group& group) noexcept {
  std::uint16_t processors = 1;
  if (group.rank < group.members.size()) processors = group.members[group.rank].processors;
  return std::max<Clock::duration>(kLongestNap,
                                   kNapPerRank * group.world / std::max<int>(processors, 1));
}
/// Reading the clock and polling the completion queue cost more than a look at the slot.
constexpr unsigned kTurnsPerLook = 16;
/// A member that has left may have passed the barrier first, and usually has. A rank for which it
/// left too early knows that, so ask the others.
constexpr auto kBetweenQuestions = std::chrono::seconds{1};

/// Sleeps until the session or the device has news, or the nap is over.
class Napper {
 public:
  explicit Napper(const Group& group) noexcept
      : core_(*group.core), session_(group.session), longest_(longest_nap(group)) {}

  void nap(Clock::duration most) {
    const auto time = std::min<Clock::duration>(next_, most);
    next_ = std::min<Clock::duration>(2 * next_, longest_);
    const bool is_armed = core_.arm().has_value();
    if (core_.drain() != 0) return;
    std::array<pollfd, 2> sources{
        {{.fd = is_armed ? core_.events.fd() : -1, .events = POLLIN, .revents = 0},
         {.fd = session_ != nullptr ? session_->fd() : -1, .events = POLLIN, .revents = 0}}};
    const timespec wait = to_timespec(std::max<Clock::duration>(time, Clock::duration::zero()));
    if (ppoll(sources.data(), sources.size(), &wait, nullptr) <= 0) return;
    // Takes and acknowledges the event. If that fails, the next nap is shorter, and nothing else
    // happens.
    if (sources[0].revents != 0) [[maybe_unused]]
      const auto taken = core_.events.wait(std::chrono::nanoseconds{0});
    // Reading the departures clears the descriptor. If there are no new ones and it stays readable,
    // the news is not for us, so stop listening.
    if (sources[1].revents != 0) {
      const std::uint32_t changes = session_->changes();
      if (std::exchange(seen_, changes) == changes) session_ = nullptr;
    }
  }

 private:
  CompletionCore& core_;
  const SessionView* session_;  ///< Null: do not listen.
  std::uint32_t seen_ = UINT32_MAX;
  const Clock::duration longest_;
  Clock::duration next_ = kShortestNap;
};

Error gone(const Departure& departure) noexcept {
  return {.code = departure.why == Departed::left ? Errc::peer_closed : Errc::peer_lost,
          .operation = "barrier",
          .field = "rank",
          .value = departure.rank};
}

}  // namespace

BarrierResult BarrierState::wait_long(Deadline deadline) {
  if (deadline.kind() == Deadline::Kind::own) deadline = Deadline{group_.timeout};
  const bool is_hasty =
      deadline.kind() == Deadline::Kind::relative && deadline.limit().count() == 0;
  Clock::time_point start{};  // Set with the first look at the clock.
  Clock::time_point end{};
  bool is_long = false;
  Napper napper{group_};
  for (unsigned turn = is_hasty ? 0 : 1;; ++turn) {
    if (is_long || turn % kTurnsPerLook == 0) {
      const Clock::time_point now = Clock::now();
      if (start == Clock::time_point{}) {
        start = now;
        end = deadline.end(start);
      }
      look_after_channels(now);
      if (suspicion_) heed_suspicion(now, end);
      if (stage_ == Stage::failed) return take_failure();
      is_long = now - start >= kYield;
      // A rank that stops waiting has come nevertheless, and the others should know.
      if ((is_long || now >= end) && !is_reported_)
        report(BarrierReport::Stand::waiting, awaited());
      if (now >= end) return std::unexpected(late());
      if (is_long) napper.nap(end - now);
    }
    if (!is_long) sched_yield();
    switch (advance()) {
      case Progress::done: leave(); return {};
      case Progress::failed: return take_failure();
      case Progress::waiting: break;
    }
    heed_departures();
    if (stage_ == Stage::failed) return take_failure();
  }
}

void BarrierState::look_after_channels(Clock::time_point now) noexcept {
  group_.core->drain();
  for (const Move& move : moves_) {
    if (move.peer->channel == nullptr) continue;  // notify() reports it.
    ChannelState& channel =
        whole(ChannelAccess::core(*move.peer->channel, std::source_location::current()));
    if (!channel.is_ending() && !channel.interrupted.load()) continue;
    channel.step(now);
    if (channel.cause || channel.ending.failure)
      suspect(move.rank, channel.cause.value_or(channel.ending.failure.value_or(Error{})), now);
  }
}

bool BarrierState::needs(Rank rank) const noexcept {
  return std::ranges::any_of(std::span{moves_}.subspan(next_), [&](const Move& move) {
    return move.rank == rank && (move.notify || seen_of(move) == Seen::not_yet);
  });
}

bool BarrierState::has_left(Rank rank) const {
  if (group_.session == nullptr) return false;
  return std::ranges::any_of(group_.session->departures(), [&](const Departure& each) {
    return each.rank == rank && each.why == Departed::left;
  });
}

bool BarrierState::is_through(const Suspicion& suspicion) const {
  return !needs(suspicion.rank) &&
         (suspicion.error == Errc::peer_closed || has_left(suspicion.rank));
}

void BarrierState::suspect(Rank rank, const Error& error, Clock::time_point now) noexcept {
  if (suspicion_) return;
  const Suspicion suspicion{.rank = rank, .error = error, .since = now};
  if (!is_through(suspicion)) suspicion_ = suspicion;
}

std::optional<Error> BarrierState::gone_member() const {
  if (group_.session == nullptr) return std::nullopt;
  std::optional<Error> left;
  bool is_needed = false;
  for (const Departure& each : group_.session->departures()) {
    if (each.why == Departed::coordinator || !std::ranges::binary_search(ranks_, each.rank))
      continue;
    if (each.why != Departed::left) return gone(each);
    if (left && (is_needed || !needs(each.rank))) continue;
    left = gone(each);
    is_needed = needs(each.rank);
  }
  return left;
}

void BarrierState::heed_departures() {
  if (group_.session == nullptr) return;
  if (const std::uint32_t changes = group_.session->changes(); changes != changes_) {
    changes_ = changes;
    const bool was_gone = gone_.has_value();
    gone_ = gone_member();
    if (gone_ && !was_gone) gone_since_ = Clock::now();
    // Its last notice was sent before it told the session. So one more look is enough.
    if (gone_ && advance() == Progress::done) return;
    if (stage_ == Stage::failed) return;
  }
  if (!gone_) return;
  if (*gone_ == Errc::peer_lost || needs(static_cast<Rank>(gone_->value))) return fail(*gone_);
  if (const auto now = Clock::now(); now - gone_since_ >= kBetweenQuestions) {
    gone_since_ = now;
    ask_who_failed();
  }
}

void BarrierState::ask_who_failed() {
  for (const Rank rank : awaited()) {
    const auto report = report_of(rank);
    if (!report || report->stand != BarrierReport::Stand::failed ||
        !report->is_of(tag_, generation_) || report->awaited.empty())
      continue;
    return fail(gone({.rank = report->awaited.front(), .why = Departed::left}));
  }
}

void BarrierState::heed_suspicion(Clock::time_point now, Clock::time_point end) {
  if (is_through(*suspicion_)) return suspicion_.reset();
  Suspicion& suspicion = *suspicion_;
  if (group_.session != nullptr) {
    if (!std::exchange(suspicion.was_told, true)) {
      const auto left = std::min<std::chrono::nanoseconds>(
          group_.detect, std::max<Clock::duration>(end - now, Clock::duration::zero()));
      [[maybe_unused]] const auto verdict = group_.session->verdict(left);  // Perhaps about others.
      heed_departures();
      if (stage_ == Stage::failed) return;
      if (is_through(suspicion)) return suspicion_.reset();
      now = Clock::now();
    }
    if (now - suspicion.since < group_.detect) return;
  }
  Error error = suspicion.error;
  // The channel was ended with this reason, so it is known what happened to the rank.
  if (is_peer_end(error))
    error = {.code = error.code, .operation = "barrier", .field = "rank", .value = suspicion.rank};
  else
    error = error.with_text("to rank " + std::to_string(suspicion.rank));
  fail(error);
}

}  // namespace verbatim::detail
