// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/barrier_schedule.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "network/barrier_algorithms.hpp"
#include "verbatim/network/barrier_schedule.hpp"

namespace verbatim {
namespace {

std::vector<std::vector<Step>> all_of(BarrierAlgorithm algorithm, std::uint32_t size) {
  std::vector<std::vector<Step>> all;
  for (std::uint32_t index = 0; index < size; ++index)
    all.push_back(schedule(algorithm, size, index));
  return all;
}

TEST(BarrierSchedule, IsEmptyForOneAndForNone) {
  for (const auto algorithm : test::kAlgorithms) {
    EXPECT_TRUE(schedule(algorithm, 0, 0).empty());
    EXPECT_TRUE(schedule(algorithm, 1, 0).empty());
  }
}

TEST(BarrierSchedule, NotifiesEachOtherOnceAtMostAndIsAwaitedThere) {
  for (const auto algorithm : test::kAlgorithms)
    for (std::uint32_t size = 2; size <= 70; ++size) {
      std::set<std::pair<std::uint32_t, std::uint32_t>> sent;
      std::set<std::pair<std::uint32_t, std::uint32_t>> awaited;
      const auto all = all_of(algorithm, size);
      for (std::uint32_t index = 0; index < size; ++index)
        for (const Step& step : all[index]) {
          ASSERT_LT(step.index, size);
          ASSERT_NE(step.index, index);
          const bool is_new = step.notify ? sent.insert({index, step.index}).second
                                          : awaited.insert({step.index, index}).second;
          ASSERT_TRUE(is_new) << to_string(algorithm) << " of " << size;
        }
      ASSERT_EQ(sent, awaited) << to_string(algorithm) << " of " << size;
    }
}

TEST(BarrierSchedule, LetsEverybodyKnowOfEverybody) {
  for (const auto algorithm : test::kAlgorithms)
    for (std::uint32_t size = 2; size <= 70; ++size) {
      const auto all = all_of(algorithm, size);
      std::vector<std::set<std::uint32_t>> known(size);
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::set<std::uint32_t>> told;
      std::vector<std::size_t> at(size, 0);
      for (std::uint32_t index = 0; index < size; ++index) known[index].insert(index);
      for (bool moved = true; moved;) {
        moved = false;
        for (std::uint32_t index = 0; index < size; ++index)
          for (; at[index] < all[index].size(); ++at[index], moved = true) {
            const Step& step = all[index][at[index]];
            if (step.notify) {
              told[{index, step.index}] = known[index];
              continue;
            }
            const auto found = told.find({step.index, index});
            if (found == told.end()) break;
            known[index].insert(found->second.begin(), found->second.end());
          }
      }
      for (std::uint32_t index = 0; index < size; ++index) {
        ASSERT_EQ(at[index], all[index].size()) << to_string(algorithm) << ": stuck";
        ASSERT_EQ(known[index].size(), size) << to_string(algorithm) << " of " << size;
      }
    }
}

TEST(BarrierSchedule, HasAsManyStepsAsItsTableSays) {
  for (std::uint32_t size = 2; size <= 70; ++size) {
    const auto rounds = static_cast<std::size_t>(std::bit_width(size - 1));
    for (const auto& steps : all_of(BarrierAlgorithm::dissemination, size))
      ASSERT_EQ(steps.size(), 2 * rounds);
    for (const auto algorithm : {BarrierAlgorithm::centralized, BarrierAlgorithm::binary_tree}) {
      std::size_t notices = 0;
      for (const auto& steps : all_of(algorithm, size))
        notices += static_cast<std::size_t>(std::ranges::count(steps, true, &Step::notify));
      ASSERT_EQ(notices, 2 * (size - 1));
    }
    ASSERT_EQ(schedule(BarrierAlgorithm::centralized, size, size - 1),
              (std::vector<Step>{{true, 0}, {false, 0}}));
  }
}

TEST(BarrierSchedule, OfATreeGoesUpAndDown) {
  EXPECT_EQ(
      schedule(BarrierAlgorithm::binary_tree, 6, 1),
      (std::vector<Step>{{false, 3}, {false, 4}, {true, 0}, {false, 0}, {true, 3}, {true, 4}}));
}

TEST(BarrierPartners, AreWhoIsNotifiedOrAwaited) {
  using Indices = std::vector<std::uint32_t>;
  EXPECT_EQ(partners(BarrierAlgorithm::centralized, 4, 0), (Indices{1, 2, 3}));
  EXPECT_EQ(partners(BarrierAlgorithm::centralized, 4, 3), (Indices{0}));
  EXPECT_EQ(partners(BarrierAlgorithm::binary_tree, 6, 1), (Indices{0, 3, 4}));
  EXPECT_EQ(partners(BarrierAlgorithm::dissemination, 8, 0), (Indices{1, 2, 4, 6, 7}));
  EXPECT_EQ(partners(BarrierAlgorithm::dissemination, 1, 0), (Indices{}));
}

Member on(std::uint64_t host, std::uint16_t processors, bool present = true) {
  return {.host_high = host, .host_low = 1, .processors = processors, .present = present};
}

TEST(BarrierChoice, IsCentralizedWhereAHostHasMoreRanksThanProcessors) {
  const std::vector members{on(1, 2), on(1, 2), on(2, 1), on(2, 1)};
  EXPECT_TRUE(is_oversubscribed(members));
  EXPECT_EQ(choose(members), BarrierAlgorithm::centralized);
}

TEST(BarrierChoice, IsDisseminationWhereEachRankHasAProcessor) {
  const std::vector members{on(1, 2), on(1, 2), on(2, 1), on(3, 64)};
  EXPECT_FALSE(is_oversubscribed(members));
  EXPECT_EQ(choose(members), BarrierAlgorithm::dissemination);
  EXPECT_EQ(choose({}), BarrierAlgorithm::dissemination);
}

TEST(BarrierChoice, TakesTheRankWithTheFewestProcessorsAndDoesNotCountWhoIsGone) {
  EXPECT_TRUE(is_oversubscribed(std::vector{on(1, 8), on(1, 1)}));
  EXPECT_FALSE(is_oversubscribed(std::vector{on(1, 1), on(1, 1, false)}));
}

TEST(BarrierChoice, DoesNotHangOnTheOrder) {
  std::vector members{on(1, 2), on(2, 2), on(1, 2), on(2, 2), on(2, 2)};
  for (int turn = 0; turn < 5; ++turn) {
    std::ranges::rotate(members, members.begin() + 1);
    EXPECT_EQ(choose(members), BarrierAlgorithm::centralized);
  }
}

}  // namespace
}  // namespace verbatim
