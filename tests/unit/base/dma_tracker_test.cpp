// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the tracker gives the same answers as a list of all ranges, to the byte, on every level.
// Method: the edges by hand; then random ranges, compared with brute force.
#include "base/dma_tracker.hpp"

#include <gtest/gtest.h>

#include "verbatim/base/dma_model.hpp"

#if VERBATIM_DMA_MODELLED

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "support/seed.hpp"
#include "support/throwing_contracts.hpp"

namespace verbatim::dma::detail {
namespace {

constexpr auto kReads = Direction::device_reads;
constexpr auto kWrites = Direction::device_writes;

bool same(const Interval& a, const Interval& b) {
  return a.begin == b.begin && a.end == b.end && a.direction == b.direction &&
         a.operation == b.operation;
}

TEST(DmaTracker, KnowsNothingAtFirst) {
  const Tracker tracker;
  EXPECT_FALSE(tracker.conflict({0, ~std::uintptr_t{0}, kWrites}));
  EXPECT_EQ(tracker.size(), 0u);
}

TEST(DmaTracker, ReadersShareAndWritersDoNot) {
  for (const auto& [first, second, conflict] : {std::tuple{kReads, kReads, false},
                                                {kReads, kWrites, true},
                                                {kWrites, kReads, true},
                                                {kWrites, kWrites, true}}) {
    Tracker tracker;
    (void)tracker.insert({1000, 2000, first});
    EXPECT_EQ(tracker.conflict({1500, 1501, second}).has_value(), conflict);
    EXPECT_TRUE(tracker.overlap({1500, 1501, second})) << "whatever the direction";
  }
}

TEST(DmaTracker, IsExactToTheByte) {
  Tracker tracker;
  (void)tracker.insert({1003, 1013, kWrites});
  EXPECT_FALSE(tracker.conflict({1002, 1003, kReads}));
  EXPECT_TRUE(tracker.conflict({1002, 1004, kReads}));
  EXPECT_TRUE(tracker.conflict({1012, 1013, kReads}));
  EXPECT_FALSE(tracker.conflict({1013, 1014, kReads}));
}

/// Looks up a long range from a short one and the other way round, at both ends.
TEST(DmaTracker, FindsAcrossLevels) {
  for (std::size_t level = 0; level < 40; ++level) {
    const std::uintptr_t length = std::uintptr_t{1} << level;
    const std::uintptr_t begin = (std::uintptr_t{1} << 41) - length / 2;  // Across a cell border.
    Tracker tracker;
    const auto id = tracker.insert({begin, begin + length, kWrites});
    EXPECT_TRUE(tracker.conflict({begin, begin + 1, kReads})) << length;
    EXPECT_TRUE(tracker.conflict({begin + length - 1, begin + length, kReads})) << length;
    EXPECT_TRUE(tracker.conflict({1, begin + 1, kReads})) << length;
    EXPECT_FALSE(tracker.conflict({begin - 1, begin, kReads})) << length;
    EXPECT_FALSE(tracker.conflict({begin + length, begin + length + 1, kReads})) << length;
    tracker.erase(id);
    EXPECT_FALSE(tracker.conflict({begin, begin + length, kWrites})) << length;
  }
}

TEST(DmaTracker, AcceptsTheLowestAddresses) {
  Tracker tracker;
  (void)tracker.insert({0, 1, kWrites});
  EXPECT_TRUE(tracker.conflict({0, 100, kReads}));
  EXPECT_FALSE(tracker.conflict({1, 100, kReads}));
}

TEST(DmaTracker, RefusesWhatIsNoRange) {
  const test::ThrowingContracts throwing;
  Tracker tracker;
  EXPECT_THROW((void)tracker.insert({10, 10, kReads}), ContractViolation);
  EXPECT_THROW((void)tracker.insert({10, 9, kReads}), ContractViolation);
  EXPECT_THROW((void)tracker.insert({0, ~std::uintptr_t{0}, kReads}), ContractViolation);
  EXPECT_THROW(Tracker{3}, ContractViolation);
}

TEST(DmaTracker, GrowsOnceAndKeepsTheRoom) {
  Tracker tracker{4};
  std::vector<Tracker::Id> ids;
  for (std::uintptr_t i = 0; i < 100; ++i)
    ids.push_back(tracker.insert({100 * i + 1, 100 * i + 101, kWrites}));
  EXPECT_EQ(tracker.size(), 100u);
  EXPECT_EQ(tracker.capacity(), 128u);
  for (std::uintptr_t i = 0; i < 100; ++i) {
    const auto found = tracker.conflict({100 * i + 50, 100 * i + 51, kReads});
    ASSERT_TRUE(found) << i;
    EXPECT_EQ(found->begin, 100 * i + 1);
  }
  for (const auto id : ids) tracker.erase(id);
  EXPECT_EQ(tracker.size(), 0u);
  EXPECT_FALSE(tracker.overlap({1, 20000, kWrites}));
  for (std::uintptr_t i = 0; i < 128; ++i) (void)tracker.insert({i + 1, i + 2, kWrites});
  EXPECT_EQ(tracker.capacity(), 128u);
}

/// All ranges in flight, in a list.
class BruteForce {
 public:
  std::vector<std::pair<Interval, Tracker::Id>> all;

  [[nodiscard]] bool conflict(const Interval& wanted) const {
    return std::ranges::any_of(all, [&](const auto& e) { return e.first.conflicts(wanted); });
  }
  [[nodiscard]] bool overlap(const Interval& wanted) const {
    return std::ranges::any_of(all, [&](const auto& e) { return e.first.overlaps(wanted); });
  }
  [[nodiscard]] bool holds(const Interval& wanted) const {
    return std::ranges::any_of(all, [&](const auto& e) { return same(e.first, wanted); });
  }
};

/// Lengths of all magnitudes, close to the borders of large cells.
Interval random_interval(std::mt19937_64& random) {
  const std::uintptr_t length = 1 + random() % (std::uintptr_t{1} << random() % 20);
  const std::uintptr_t place = (random() % 64 << 16) + random() % 4096;
  return {1 + place, 1 + place + length, random() % 4 == 0 ? kWrites : kReads,
          reinterpret_cast<const Operation*>(random() % 1000 + 1)};
}

TEST(DmaTracker, AnswersAsBruteForceDoes) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  Tracker tracker{16};  // It has to grow.
  BruteForce list;
  std::size_t conflicts = 0;
  for (int step = 0; step < 60'000; ++step) {
    if (list.all.size() < 200 && random() % 8 < 5) {
      const Interval wanted = random_interval(random);
      const auto found = tracker.conflict(wanted);
      ASSERT_EQ(found.has_value(), list.conflict(wanted)) << "step " << step;
      ASSERT_EQ(tracker.overlap(wanted).has_value(), list.overlap(wanted)) << "step " << step;
      if (found) {
        ++conflicts;
        ASSERT_TRUE(list.holds(*found) && found->conflicts(wanted)) << "step " << step;
      } else {
        list.all.emplace_back(wanted, tracker.insert(wanted));
      }
    } else if (!list.all.empty()) {
      auto& chosen = list.all[random() % list.all.size()];
      tracker.erase(chosen.second);
      chosen = list.all.back();
      list.all.pop_back();
    }
    ASSERT_EQ(tracker.size(), list.all.size());
  }
  EXPECT_GT(conflicts, 1000u);  // Otherwise the test shows little.
  EXPECT_GT(tracker.capacity(), 16u);
}

}  // namespace
}  // namespace verbatim::dma::detail

#endif
