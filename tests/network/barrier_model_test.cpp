// SPDX-License-Identifier: MIT OR Apache-2.0
// Every schedule of small barriers; and the model finds what is broken on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "network/barrier_algorithms.hpp"
#include "network/barrier_model.hpp"

namespace verbatim::test {
namespace {

using detail::Seen;
using Ranks = std::vector<Rank>;

struct Case {
  const char* name;
  Rank world;
  std::vector<Ranks> groups;  ///< One barrier after the other.
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"two ranks, six epochs", 2, {6, {0, 1}}},
      {"three ranks, three epochs", 3, {3, {0, 1, 2}}},
      {"four ranks, one epoch", 4, {1, {0, 1, 2, 3}}},
      {"four ranks, four epochs", 4, {4, {0, 1, 2, 3}}},
      {"overlapping", 4, {{0, 1, 2}, {1, 2, 3}}},
      {"overlapping, twice", 4, {{0, 1, 2}, {1, 2, 3}, {0, 1, 2}}},
      {"nested", 3, {{0, 1, 2}, {0, 1}, {0, 1, 2}}},
      {"nested, the first not in it", 3, {{0, 1, 2}, {1, 2}, {1, 2}, {0, 1, 2}}},
      {"side by side", 4, {{0, 1}, {2, 3}, {0, 1, 2, 3}}},
      {"a ring of pairs", 3, {{0, 1}, {1, 2}, {0, 2}, {0, 1}}},
  };
  return all;
}

std::vector<ModelBarrier> program_of(const Case& each, BarrierAlgorithm algorithm) {
  std::vector<ModelBarrier> program;
  for (const Ranks& ranks : each.groups) program.push_back({algorithm, ranks});
  return program;
}

/// What the model finds in the first case that is wrong.
std::string found_with(const ModelRules& rules) {
  for (const Case& each : cases())
    for (const auto algorithm : kAlgorithms)
      if (const auto outcome = explore(each.world, program_of(each, algorithm), rules);
          !outcome.violation.empty())
        return outcome.violation;
  return "nothing";
}

TEST(BarrierModel, NobodyLeavesEarlyOrIsStuckOrMistakesAGroup) {
  std::size_t states = 0;
  for (const Case& each : cases())
    for (const auto algorithm : kAlgorithms) {
      const auto outcome = explore(each.world, program_of(each, algorithm));
      EXPECT_EQ(outcome.violation, "") << each.name << ", " << to_string(algorithm);
      states += outcome.states;
    }
  std::cout << "barrier model: " << states << " states\n";
  EXPECT_GT(states, 50'000u) << "it looks at next to nothing";
}

/// All subsets of two or more ranks, with each algorithm.
std::vector<ModelBarrier> all_barriers(Rank world) {
  std::vector<ModelBarrier> all;
  for (unsigned set = 0; set < 1u << world; ++set) {
    Ranks ranks;
    for (Rank rank = 0; rank < world; ++rank)
      if ((set >> rank & 1) != 0) ranks.push_back(rank);
    if (ranks.size() < 2) continue;
    for (const auto algorithm : kAlgorithms) all.push_back({algorithm, ranks});
  }
  return all;
}

TEST(BarrierModel, HoldsForAnyTwoBarriersOfFourRanks) {
  const auto all = all_barriers(4);
  std::size_t states = 0;
  for (const ModelBarrier& first : all)
    for (const ModelBarrier& second : all) {
      const auto outcome = explore(4, {first, second});
      ASSERT_EQ(outcome.violation, "")
          << to_string(first.algorithm) << " of " << testing::PrintToString(first.ranks) << ", "
          << to_string(second.algorithm) << " of " << testing::PrintToString(second.ranks);
      states += outcome.states;
    }
  std::cout << "barrier model: " << states << " states\n";
}

TEST(BarrierModel, HoldsForAnyThreeBarriersOfThreeRanks) {
  const auto all = all_barriers(3);
  std::size_t states = 0;
  for (const ModelBarrier& first : all)
    for (const ModelBarrier& second : all)
      for (const ModelBarrier& third : all) {
        const auto outcome = explore(3, {first, second, third});
        ASSERT_EQ(outcome.violation, "");
        states += outcome.states;
      }
  std::cout << "barrier model: " << states << " states\n";
}

TEST(BarrierModel, HoldsForAlgorithmsInTurns) {
  const Ranks all{0, 1, 2};
  const std::vector<ModelBarrier> program{{BarrierAlgorithm::centralized, all},
                                          {BarrierAlgorithm::dissemination, all},
                                          {BarrierAlgorithm::binary_tree, {1, 2}},
                                          {BarrierAlgorithm::dissemination, all}};
  EXPECT_EQ(explore(3, program).violation, "");
}

TEST(BarrierModel, HoldsWhenTheCountWrapsAround) {
  const std::uint64_t last = (std::uint64_t{1} << detail::kCountBits) - 1;
  for (const auto algorithm : kAlgorithms)
    EXPECT_EQ(explore(3, {3, {algorithm, {0, 1, 2}}}, {.first_count = last - 1}).violation, "");
}

/// Rank 0 is at another barrier than the others. In each case some rank has to notice that.
TEST(BarrierModel, AnotherGroupIsFoundAndNobodyLeaves) {
  for (const auto algorithm : kAlgorithms) {
    const auto outcome = explore({{algorithm, {0, 1}}, {algorithm, {0, 1, 2}}}, {{0}, {1}, {1}},
                                 {.may_mismatch = true});
    EXPECT_EQ(outcome.violation, "") << to_string(algorithm);
    EXPECT_GT(outcome.mismatches, 0u) << to_string(algorithm);
  }
}

TEST(BarrierModel, AnotherAlgorithmIsFound) {
  const Ranks both{0, 1};
  const auto outcome =
      explore({{BarrierAlgorithm::dissemination, both}, {BarrierAlgorithm::centralized, both}},
              {{0}, {1}}, {.may_mismatch = true});
  EXPECT_EQ(outcome.violation, "");
  EXPECT_GT(outcome.mismatches, 0u);
}

// ---- What is broken is found ------------------------------------------------------------------

TEST(BarrierModelFinds, ARoundThatIsLeftOut) {
  const ModelRules rules{.schedule = [](auto algorithm, auto size, auto index) {
    auto steps = schedule(algorithm, size, index);
    if (algorithm == BarrierAlgorithm::dissemination && size > 2) steps.resize(steps.size() - 2);
    return steps;
  }};
  EXPECT_THAT(found_with(rules), testing::StartsWith("left early"));
}

TEST(BarrierModelFinds, ARootThatDoesNotWaitForItsLastChild) {
  const ModelRules rules{.schedule = [](auto algorithm, auto size, auto index) {
    auto steps = schedule(algorithm, size, index);
    if (algorithm == BarrierAlgorithm::centralized && index == 0)
      steps.erase(steps.begin() + size - 2);
    return steps;
  }};
  EXPECT_THAT(found_with(rules), testing::StartsWith("left early"));
}

TEST(BarrierModelFinds, ARootThatLetsGoFirst) {
  const ModelRules rules{.schedule = [](auto algorithm, auto size, auto index) {
    auto steps = schedule(algorithm, size, index);
    if (algorithm == BarrierAlgorithm::binary_tree && index == 0) std::ranges::reverse(steps);
    return steps;
  }};
  EXPECT_THAT(found_with(rules), testing::StartsWith("left early"));
}

TEST(BarrierModelFinds, AStepThatNobodyAnswers) {
  const ModelRules rules{.schedule = [](auto algorithm, auto size, auto index) {
    auto steps = schedule(algorithm, size, index);
    if (size > 2 && index == size - 1) std::erase_if(steps, [](auto step) { return step.notify; });
    return steps;
  }};
  EXPECT_THAT(found_with(rules), testing::StartsWith("deadlock"));
}

TEST(BarrierModelFinds, AFlagThatDoesNotCount) {
  const ModelRules rules{.make_flag = [](auto generation, auto tag, auto) {
    return detail::make_flag(generation, tag, 1);
  }};
  EXPECT_THAT(found_with(rules), testing::StartsWith("left early"));
}

TEST(BarrierModelFinds, AFlagOfOneBit) {
  const ModelRules rules{.make_flag = [](auto generation, auto tag, auto count) {
    return detail::make_flag(generation, tag, count % 2);
  }};
  EXPECT_NE(found_with(rules), "nothing");
}

TEST(BarrierModelFinds, AComparisonThatTakesTheNoticeBefore) {
  const ModelRules rules{.compare = [](auto got, auto wanted) {
    const auto ahead = static_cast<std::int64_t>((got - wanted) << (64 - detail::kCountBits));
    return ahead >= -(std::int64_t{1} << (64 - detail::kCountBits)) ? Seen::arrived : Seen::not_yet;
  }};
  EXPECT_THAT(found_with(rules), testing::StartsWith("left early"));
}

TEST(BarrierModelFinds, AComparisonThatMissesANoticeWhichWasOvertaken) {
  const ModelRules rules{.compare = [](auto got, auto wanted) {
    return got == wanted ? Seen::arrived : Seen::not_yet;
  }};
  EXPECT_THAT(found_with(rules), testing::StartsWith("deadlock"));
}

TEST(BarrierModelFinds, ATagThatIsAlwaysLookedAt) {
  const ModelRules rules{.compare = [](auto got, auto wanted) {
    const Seen seen = detail::compare(got, wanted);
    const bool is_other = (got ^ wanted) << 8 >> (8 + detail::kCountBits) != 0;
    return seen == Seen::arrived && is_other ? Seen::mismatch : seen;
  }};
  EXPECT_THAT(found_with(rules), testing::StartsWith("false mismatch"));
}

TEST(BarrierModelFinds, ATagThatIsNeverLookedAt) {
  const ModelRules rules{.compare =
                             [](auto got, auto wanted) {
                               const Seen seen = detail::compare(got, wanted);
                               return seen == Seen::mismatch ? Seen::arrived : seen;
                             },
                         .may_mismatch = true};
  const auto outcome = explore(
      {{BarrierAlgorithm::dissemination, {0, 1}}, {BarrierAlgorithm::dissemination, {0, 1, 2}}},
      {{0}, {1}, {1}}, rules);
  EXPECT_NE(outcome.violation, "");
}

}  // namespace
}  // namespace verbatim::test
