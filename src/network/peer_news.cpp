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
  if (channels_[rank]) channels_[rank]->end(error_of(why));
}

void PeerNews::watch(Rank rank, const Canceller& channel) {
  const std::lock_guard lock{mutex_};
  channels_[rank] = channel;
  for (const Departure& each : told_)
    if (each.rank == rank || each.rank == own_) return end(rank, each);
}

void PeerNews::forget(Rank rank) {
  const std::lock_guard lock{mutex_};
  channels_[rank].reset();
}

void PeerNews::tell(const Departure& departure) {
  // Data still flows without a coordinator.
  if (departure.why == Departed::coordinator) return;
  const std::lock_guard lock{mutex_};
  told_.push_back(departure);
  if (departure.rank != own_) return end(departure.rank, departure);
  // The others dropped us and went on, so all our channels end.
  for (Rank rank = 0; rank < channels_.size(); ++rank) end(rank, departure);
}

void PeerNews::begin_generation() {
  const std::lock_guard lock{mutex_};
  told_.clear();
}

}  // namespace verbatim::detail
