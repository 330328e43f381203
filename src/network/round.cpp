// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/round.hpp"

#include <algorithm>
#include <memory>

namespace verbatim::detail {

void Round::reset(Rank world, const std::vector<Rank>& members) {
  *this = {};
  parts_.resize(world);
  for (const Rank rank : members) parts_[rank].member = true;
}

void Round::advance() {
  ++sequence_;
  call_.reset();
  size_ = 0;
  for (Part& part : parts_) part.bytes.reset();
  std::uint32_t oldest = sequence_;
  for (const Part& part : parts_)
    if (part.member && part.here) oldest = std::min(oldest, part.next);
  failures_.erase(failures_.begin(), failures_.lower_bound(oldest));
}

/// Fails the open call for every rank that has come or will come.
void Round::fail(FailedMessage failure) {
  failure.call = call_.value_or(Call::exchange);
  failure.sequence = sequence_;
  const auto plaintext = std::make_shared<const Bytes>(encode(failure));
  for (Rank rank = 0; rank < parts_.size(); ++rank)
    if (parts_[rank].bytes && parts_[rank].here) answers_.push_back({rank, plaintext});
  failures_.emplace(sequence_, failure);
  advance();
}

void Round::finish_if_all() {
  if (!call_) return;
  const bool all = std::ranges::all_of(
      parts_, [](const Part& part) { return !part.member || !part.here || part.bytes; });
  if (!all) return;
  GatheredMessage gathered{.sequence = sequence_};
  if (*call_ == Call::exchange) {
    gathered.by_rank.reserve(parts_.size());
    for (Part& part : parts_)
      gathered.by_rank.push_back(part.bytes ? std::move(*part.bytes) : Bytes{});
  }
  const auto plaintext = std::make_shared<const Bytes>(encode(gathered));
  for (Rank rank = 0; rank < parts_.size(); ++rank)
    if (parts_[rank].member && parts_[rank].here) answers_.push_back({rank, plaintext});
  advance();
}

Result<void> Round::contribute(Rank rank, ContributionMessage&& message) {
  Part& part = parts_[rank];
  if (message.sequence != part.next || message.sequence > sequence_)
    return std::unexpected(Error{.code = Errc::malformed,
                                 .operation = "contribution",
                                 .field = "sequence",
                                 .value = message.sequence,
                                 .limit = part.next});
  ++part.next;
  if (const auto failed = failures_.find(message.sequence); failed != failures_.end()) {
    answers_.push_back({rank, std::make_shared<const Bytes>(encode(failed->second))});
    return {};
  }
  if (lost_) {
    FailedMessage failure{.call = message.call, .sequence = message.sequence, .departure = *lost_};
    answers_.push_back({rank, std::make_shared<const Bytes>(encode(failure))});
    if (message.sequence == sequence_) ++sequence_;
    return {};
  }
  const bool first = !call_;
  if (first) call_ = message.call;
  part.bytes = std::move(message.bytes);
  size_ += part.bytes->size();
  if (*call_ != message.call)
    fail({.why = FailedWhy::mismatch, .departure = {.rank = rank}});
  else if (size_ > kMaxExchangeBytes)
    fail({.why = FailedWhy::too_large, .value = size_});
  else if (first && *call_ == Call::exchange && left_)
    fail({.departure = *left_});
  else
    finish_if_all();
  return {};
}

void Round::departed(const Departure& departure) {
  if (departure.rank >= parts_.size() || !parts_[departure.rank].member) return;
  Part& part = parts_[departure.rank];
  part.here = false;
  if (departure.why != Departed::left) {
    const bool first = !lost_;
    if (first) lost_ = departure;
    if (first && call_) fail({.departure = departure});
    return;
  }
  if (!left_) left_ = departure;
  if (call_ == Call::exchange && !part.bytes)
    fail({.departure = departure});
  else
    finish_if_all();
}

std::vector<Rank> Round::missing() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < parts_.size(); ++rank)
    if (parts_[rank].member && parts_[rank].here && !parts_[rank].bytes) ranks.push_back(rank);
  return ranks;
}

}  // namespace verbatim::detail
