// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The collective calls of one generation, one after the other: exchange() and meet().
///
/// Each rank numbers its calls from 1. A call ends for all at the same moment, so only one is open
/// at a time. A rank that comes to a call that has already failed gets the same answer.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "network/messages.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

class Round {
 public:
  struct Answer {
    Rank to;
    std::shared_ptr<const Bytes> plaintext;
  };

  /// A generation begins, with these ranks.
  void reset(Rank world, const std::vector<Rank>& members);
  /// An error: the rank cannot have come to this call.
  [[nodiscard]] Result<void> contribute(Rank rank, ContributionMessage&& message);
  void departed(const Departure& departure);
  /// The answers to send, in order.
  [[nodiscard]] std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }
  /// The ranks that have not come yet.
  [[nodiscard]] std::vector<Rank> missing() const;

 private:
  struct Part {
    bool member = false;
    bool here = true;              ///< Not departed.
    std::uint32_t next = 1;        ///< The number of its next call.
    std::optional<Bytes> bytes{};  ///< Of the open call.
  };

  void fail(FailedMessage failure);
  void finish_if_all();
  void advance();

  std::vector<Part> parts_{};   ///< By rank.
  std::uint32_t sequence_ = 1;  ///< Of the open call.
  std::optional<Call> call_{};  ///< The call that the first rank made.
  std::uint64_t size_ = 0;
  std::optional<Departure> lost_{};  ///< The first: from then on everything fails.
  std::optional<Departure> left_{};  ///< The first.
  std::map<std::uint32_t, FailedMessage>
      failures_{};  ///< Calls that some ranks have not come to yet.
  std::vector<Answer> answers_{};
};

}  // namespace verbatim::detail
