// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds the ranks that have not come when a barrier times out, and reports them.
#include <algorithm>
#include <ctime>
#include <string>
#include <utility>

#include "network/barrier_report.hpp"
#include "network/barrier_state.hpp"

namespace verbatim {
namespace detail {
namespace {

/// How long to wait for each answer, and for all of them together. The caller's time is already
/// over.
constexpr auto kAnswer = std::chrono::milliseconds{50};
constexpr auto kAnswers = std::chrono::milliseconds{250};

/// The system clock, so that the times of two hosts are comparable.
std::uint64_t system_now() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

void BarrierState::report(BarrierReport::Stand stand, std::vector<Rank> ranks) {
  is_reported_ = stand == BarrierReport::Stand::waiting;
  if (group_.session == nullptr) return;
  group_.session->report(encode(BarrierReport{.stand = stand,
                                              .tag = tag_,
                                              .generation = generation_,
                                              .since = is_reported_ ? system_now() : 0,
                                              .awaited = std::move(ranks)}));
}

std::optional<BarrierReport> BarrierState::report_of(Rank rank) const {
  const auto answer = group_.session->ask(rank, kAnswer);
  // A rank that has never reported has never waited for long.
  if (answer && answer->empty()) return BarrierReport{};
  const auto report = answer ? decode_report(*answer) : std::unexpected(answer.error());
  if (!report) return std::nullopt;
  return *report;
}

/// The ranks before the next one that we have to notify. The ranks behind that one may be waiting
/// for us.
std::vector<Rank> BarrierState::awaited() const {
  std::vector<Rank> ranks;
  for (std::size_t at = next_; at < moves_.size() && !moves_[at].notify; ++at) {
    if (seen_of(moves_[at]) != Seen::arrived) ranks.push_back(moves_[at].rank);
  }
  // There was no room to notify, so that rank does not take what we send.
  if (ranks.empty() && next_ < moves_.size()) ranks.push_back(moves_[next_].rank);
  return ranks;
}

/// Follows the chain of who waits for whom, beginning with the ranks that we wait for. A rank that
/// waits at this barrier has come.
std::vector<RankState> BarrierState::missing() const {
  std::vector<Rank> asked = awaited();
  const std::size_t own = asked.size();
  std::vector<RankState> found;
  std::vector<RankState> direct;
  const Clock::time_point end = Clock::now() + kAnswers;
  for (std::size_t at = 0; at < asked.size(); ++at) {
    RankState state{.rank = asked[at]};
    state.notices = count_of(
        in_memory(group_.slots.load_acquire<std::uint64_t>(kSlotBytes * state.rank)), generation_);
    bool has_come = false;
    if (group_.session != nullptr && Clock::now() < end) {
      if (const auto report = report_of(state.rank)) {
        has_come = report->is_waiting() && report->is_of(tag_, generation_);
        state.activity =
            report->is_waiting() ? RankState::Activity::at_other : RankState::Activity::elsewhere;
        const std::uint64_t now = system_now();
        if (report->is_waiting() && now > report->since)
          state.waiting = std::chrono::nanoseconds{now - report->since};
        for (const Rank rank : has_come ? report->awaited : std::vector<Rank>{})
          if (rank != group_.rank && std::ranges::binary_search(ranks_, rank) &&
              std::ranges::find(asked, rank) == asked.end())
            asked.push_back(rank);
      }
    }
    if (at < own) direct.push_back(state);
    if (!has_come) found.push_back(state);
  }
  // They may have come while we asked.
  if (found.empty()) found = std::move(direct);
  std::ranges::sort(found, {}, &RankState::rank);
  return found;
}

BarrierError BarrierState::late() const {
  BarrierError late{.error = {.code = Errc::timed_out,
                              .operation = "barrier",
                              .field = "ranks that have not come"},
                    .missing = missing()};
  std::string ranks;
  for (const RankState& each : late.missing)
    ranks += (ranks.empty() ? "" : ",") + std::to_string(each.rank);
  late.error.value = late.missing.size();
  late.error = late.error.with_text(ranks);
  return late;
}

}  // namespace detail

std::string to_string(const BarrierError& error) {
  std::string text = to_string(error.error);
  for (const RankState& each : error.missing) {
    text += "; rank " + std::to_string(each.rank);
    switch (each.activity) {
      case RankState::Activity::unknown: text += " has not come"; break;
      case RankState::Activity::elsewhere: text += " waits at no barrier"; break;
      case RankState::Activity::at_other:
        text += " waits at another barrier, for " +
                std::to_string(
                    std::chrono::duration_cast<std::chrono::milliseconds>(each.waiting).count()) +
                " ms";
        break;
    }
    text += " (" + std::to_string(each.notices) + " notices came from it)";
  }
  return text;
}

}  // namespace verbatim
