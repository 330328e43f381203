// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/offers.hpp"

#include <algorithm>

namespace verbatim::detail {
namespace {

Error bad_offer(const char* field, std::uint64_t value, std::uint64_t limit) noexcept {
  return {.code = Errc::malformed,
          .operation = "offer",
          .field = field,
          .value = value,
          .limit = limit};
}

}  // namespace

void OfferBook::reset(Rank world) {
  desks_.assign(world, Desk{});
  answers_.clear();
}

Result<void> OfferBook::offer(Rank rank, OfferMessage&& message) {
  Desk& desk = desks_[rank];
  if (desk.open) return std::unexpected(bad_offer("sequence", message.sequence, 0));
  Open open{.sequence = message.sequence};
  for (const PeerRecord& peer : message.to) {
    if (peer.rank >= desks_.size())
      return std::unexpected(bad_offer("rank", peer.rank, desks_.size() - 1));
    open.peers.push_back(peer.rank);
  }
  std::vector<Rank> sorted = open.peers;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    return std::unexpected(bad_offer("rank named twice", *twice, 0));

  const auto common = std::make_shared<const Bytes>(std::move(message.common));
  for (PeerRecord& peer : message.to) {
    desks_[peer.rank].offered[rank].push_back({common, std::move(peer.bytes)});
    auto& theirs = desks_[peer.rank].open;
    if (theirs && theirs->awaited.erase(rank) != 0) answer_if_all(peer.rank);
  }
  for (const Rank peer : open.peers) {
    const auto offered = desk.offered.find(peer);
    if (offered == desk.offered.end() || offered->second.empty()) open.awaited.insert(peer);
  }
  desk.open = std::move(open);
  answer_if_all(rank);
  return {};
}

void OfferBook::fail(Rank rank, const Departure& departure) {
  const FailedMessage failure{
      .call = Call::offer, .sequence = desks_[rank].open->sequence, .departure = departure};
  answers_.push_back({rank, encode(failure)});
  desks_[rank].open.reset();
}

/// Returns a peer that was lost, or that left without an offer.
std::optional<Departure> OfferBook::obstacle(const Desk& desk) const {
  for (const Rank peer : desk.open->peers) {
    const auto& departed = desks_[peer].departed;
    if (departed && (departed->why != Departed::left || desk.open->awaited.contains(peer)))
      return departed;
  }
  return std::nullopt;
}

void OfferBook::answer_if_all(Rank rank) {
  if (const auto departure = obstacle(desks_[rank])) return fail(rank, *departure);
  if (desks_[rank].open->awaited.empty()) answer(rank);
}

void OfferBook::answer(Rank rank) {
  Desk& desk = desks_[rank];
  OffersMessage message{.sequence = desk.open->sequence};
  for (const Rank peer : desk.open->peers) {
    std::deque<Offer>& offered = desk.offered.at(peer);
    message.from.push_back(
        {.rank = peer, .common = *offered.front().common, .own = std::move(offered.front().own)});
    offered.pop_front();
  }
  answers_.push_back({rank, encode(message)});
  desk.open.reset();
}

void OfferBook::departed(const Departure& departure) {
  if (departure.rank >= desks_.size()) return;
  desks_[departure.rank].departed = departure;
  desks_[departure.rank].open.reset();
  for (Rank rank = 0; rank < desks_.size(); ++rank)
    if (desks_[rank].open && obstacle(desks_[rank])) fail(rank, departure);
}

std::vector<Rank> OfferBook::missing(Rank rank) const {
  const auto& open = desks_[rank].open;
  return open ? std::vector<Rank>{open->awaited.begin(), open->awaited.end()} : std::vector<Rank>{};
}

}  // namespace verbatim::detail
