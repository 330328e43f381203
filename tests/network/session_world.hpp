// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A job in one process: its coordinator, and a session for each rank.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "support/named_error.hpp"
#include "support/require.hpp"
#include "verbatim/network/coordinator.hpp"
#include "verbatim/network/exchanger.hpp"

namespace verbatim::test {

using namespace std::chrono_literals;

/// Much more than anything here takes: a longer wait is a failure.
inline constexpr Timeout kPatience = 60s;

[[nodiscard]] inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

/// Runs `call(rank)` for each rank at the same time. Returns when all have returned.
inline void at_once(std::size_t count, const std::function<void(Rank)>& call) {
  std::vector<std::jthread> threads;
  for (Rank rank = 0; rank < count; ++rank) threads.emplace_back([&call, rank] { call(rank); });
}

/// Ends that rank's session without a goodbye.
inline void lose(std::vector<Exchanger>& sessions, Rank rank) {
  const Exchanger gone = std::move(sessions[rank]);
}

/// Makes a call that times out, until its error names the ranks that are missing: the coordinator
/// has 250 ms to answer, and a busy machine may not let it.
template <class Call>
[[nodiscard]] auto naming(Call call) {
  auto late = call();
  for (int again = 0; again < 10 && late == Errc::timed_out && late.error().value == 0; ++again)
    late = call();
  return late;
}

class World {
 public:
  explicit World(Rank size, CoordinatorOptions options = {})
      : coordinator(require(Coordinator::open(options_for(size, options)))), options_(options) {
    options_.world = size;
  }

  [[nodiscard]] Identity identity(Rank rank) const {
    return {.rank = rank,
            .world = options_.world,
            .coordinator = coordinator->address(),
            .secret = options_.secret,
            .job = options_.job};
  }
  /// Joins all ranks, each with its number as the record.
  [[nodiscard]] std::vector<Exchanger> join_all(JoinOptions join = {}) const {
    std::vector<std::optional<Result<Exchanger>>> joined(options_.world);
    at_once(options_.world, [&](Rank rank) {
      JoinOptions own = join;
      if (own.record.empty()) own.record = bytes_of(std::to_string(rank));
      joined[rank] = Exchanger::join(identity(rank), own);
    });
    std::vector<Exchanger> sessions;
    for (auto& each : joined) sessions.push_back(require(std::move(*each)));
    return sessions;
  }

  std::optional<Coordinator> coordinator;

 private:
  static CoordinatorOptions options_for(Rank size, CoordinatorOptions options) {
    options.world = size;
    // No rank is silent, unless a test says so: one that seems to be is only slow.
    if (options.detect == CoordinatorOptions{}.detect) options.detect = kPatience;
    return options;
  }
  CoordinatorOptions options_;
};

/// All ranks leave, and must succeed.
inline void leave_all(std::vector<Exchanger>& sessions) {
  at_once(sessions.size(),
          [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank].leave(kPatience))); });
}

}  // namespace verbatim::test
