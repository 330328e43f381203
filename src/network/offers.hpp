// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Offers between pairs of ranks: kept until the other has made an offer as well.
///
/// A rank's offer() names peers. It is answered when each of them has made an offer to it, with the
/// oldest offer of each that it has not received yet. Between two ranks the first offer meets the
/// first, the second meets the second.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "network/messages.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

class OfferBook {
 public:
  struct Answer {
    Rank to;
    Bytes plaintext;
  };

  void reset(Rank world);
  /// An error: the rank has an offer() open, or names a rank twice or an impossible one.
  [[nodiscard]] Result<void> offer(Rank rank, OfferMessage&& message);
  void departed(const Departure& departure);
  [[nodiscard]] std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }
  /// The ranks that this rank waits for.
  [[nodiscard]] std::vector<Rank> missing(Rank rank) const;

 private:
  struct Offer {
    std::shared_ptr<const Bytes> common;
    Bytes own;
  };
  struct Open {
    std::uint32_t sequence = 0;
    std::vector<Rank> peers{};
    std::set<Rank> awaited{};  ///< Those that have not made an offer yet.
  };
  struct Desk {
    std::optional<Open> open{};
    std::map<Rank, std::deque<Offer>> offered{};  ///< Offers to this rank, by sender.
    std::optional<Departure> departed{};
  };

  [[nodiscard]] std::optional<Departure> obstacle(const Desk& desk) const;
  void answer_if_all(Rank rank);
  void answer(Rank rank);
  void fail(Rank rank, const Departure& departure);

  std::vector<Desk> desks_{};  ///< By rank.
  std::vector<Answer> answers_{};
};

}  // namespace verbatim::detail
