// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Every possible run of barriers: all interleavings of the ranks' steps, and of notices that
/// arrive at any later time. The notices of one ordered pair arrive in order.
///
/// It runs schedule() and the flags of the library, or what a test puts in their place.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "network/flag.hpp"
#include "verbatim/network/barrier_schedule.hpp"

namespace verbatim::test {

/// One barrier of a program.
struct ModelBarrier {
  BarrierAlgorithm algorithm;
  std::vector<Rank> ranks;
};

/// What the library does, unless a test breaks it.
struct ModelRules {
  std::function<std::vector<Step>(BarrierAlgorithm, std::uint32_t, std::uint32_t)> schedule =
      verbatim::schedule;
  std::function<std::uint64_t(std::uint32_t, std::uint16_t, std::uint64_t)> make_flag =
      detail::make_flag;
  std::function<detail::Seen(std::uint64_t, std::uint64_t)> compare = detail::compare;
  std::uint64_t first_count = 0;  ///< Notices before the first; near the maximum, they wrap around.
  /// Ranks that meet another group stop. Otherwise that is a violation.
  bool may_mismatch = false;
};

struct ModelOutcome {
  std::size_t states = 0;
  std::size_t mismatches = 0;  ///< States in which a rank has met another group.
  std::string violation{};     ///< The first; empty: there is none.
};

/// All ranks run the same list; each takes part in the barriers of which it is a member.
[[nodiscard]] ModelOutcome explore(Rank world, const std::vector<ModelBarrier>& program,
                                   const ModelRules& rules = {});
/// Each rank runs its own list of indices into `barriers`.
[[nodiscard]] ModelOutcome explore(const std::vector<ModelBarrier>& barriers,
                                   const std::vector<std::vector<std::size_t>>& programs,
                                   const ModelRules& rules = {});

}  // namespace verbatim::test
