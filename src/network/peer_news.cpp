// SPDX-License-Identifier: MIT OR Apache-2.0
#include <utility>

#include "network/node_state.hpp"

namespace verbatim::detail {

Error error_of(const Departure& departure) noexcept {
  if (departure.why == Departed::coordinator)
    return {.code = Errc::peer_lost, .operation = "group", .field = "coordinator"};
  return {.code = departure.why == Departed::left ? Errc::peer_closed : Errc::peer_lost,
          .operation = "group",
          .field = "rank",
          .value = departure.rank};
}

void PeerNews::end(Rank rank, const Departure& why) const noexcept {
  if (!channels_[rank]) return;
  if (why.why != Departed::coordinator) return channels_[rank]->end(error_of(why));
  // Data still flows without a coordinator. But nobody is left to report that a rank is gone, often
  // first of all the one whose process coordinated.
  channels_[rank]->end_if_unanswered(error_of({.rank = rank, .why = Departed::connection_ended}));
}

/// If the others dropped us and went on, all our channels end.
bool PeerNews::concerns_all(const Departure& departure) const noexcept {
  return departure.rank == own_ || departure.why == Departed::coordinator;
}

void PeerNews::watch(Rank rank, const Canceller& channel) {
  const std::lock_guard lock{mutex_};
  channels_[rank] = channel;
  for (const Departure& each : told_)
    if (each.rank == rank || concerns_all(each)) end(rank, each);
}

void PeerNews::forget(Rank rank) {
  const std::lock_guard lock{mutex_};
  channels_[rank].reset();
}

void PeerNews::tell(const Departure& departure) {
  const std::lock_guard lock{mutex_};
  told_.push_back(departure);
  if (!concerns_all(departure)) return end(departure.rank, departure);
  for (Rank rank = 0; rank < channels_.size(); ++rank) end(rank, departure);
}

void PeerNews::begin_generation() {
  const std::lock_guard lock{mutex_};
  told_.clear();
}

}  // namespace verbatim::detail
