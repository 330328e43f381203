// SPDX-License-Identifier: MIT OR Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "network/flag.hpp"

namespace verbatim::detail {
namespace {

constexpr std::uint64_t kLast = (std::uint64_t{1} << kCountBits) - 1;
constexpr std::uint16_t kTag = 0xbeef;
constexpr std::uint16_t kOther = 0xbeee;

TEST(BarrierFlag, HasEachFieldInItsPlace) {
  EXPECT_EQ(make_flag(0x12, 0x3456, 0x789abcdef0), 0x123456789abcdef0u);
  EXPECT_EQ(make_flag(0x112, 0x3456, 0x55789abcdef0), 0x123456789abcdef0u);
}

TEST(BarrierFlag, ArrivesWithTheSameAndWithTheNextNotice) {
  const std::uint64_t wanted = make_flag(1, kTag, 7);
  EXPECT_EQ(compare(make_flag(1, kTag, 7), wanted), Seen::arrived);
  EXPECT_EQ(compare(make_flag(1, kTag, 8), wanted), Seen::arrived);
  EXPECT_EQ(compare(make_flag(1, kOther, 8), wanted), Seen::arrived) << "of the next barrier";
}

TEST(BarrierFlag, HasNotArrivedWithAnEarlierNotice) {
  const std::uint64_t wanted = make_flag(1, kTag, 7);
  EXPECT_EQ(compare(0, wanted), Seen::not_yet);
  EXPECT_EQ(compare(make_flag(1, kTag, 6), wanted), Seen::not_yet);
  EXPECT_EQ(compare(make_flag(1, kOther, 6), wanted), Seen::not_yet);
  EXPECT_EQ(compare(make_flag(1, kTag, 0), wanted), Seen::not_yet);
}

TEST(BarrierFlag, TellsAnotherGroupWhenTheCountsAreEqual) {
  EXPECT_EQ(compare(make_flag(1, kOther, 7), make_flag(1, kTag, 7)), Seen::mismatch);
  EXPECT_EQ(compare(make_flag(1, 0, 7), make_flag(1, kTag, 7)), Seen::mismatch);
}

TEST(BarrierFlag, OfAnotherGenerationIsNothing) {
  const std::uint64_t wanted = make_flag(2, kTag, 7);
  EXPECT_EQ(compare(make_flag(1, kTag, 7), wanted), Seen::not_yet);
  EXPECT_EQ(compare(make_flag(3, kTag, 7), wanted), Seen::not_yet);
  EXPECT_EQ(compare(make_flag(1, kOther, 7), wanted), Seen::not_yet) << "no mismatch either";
  EXPECT_EQ(compare(make_flag(1, kTag, 8), wanted), Seen::not_yet);
}

TEST(BarrierFlag, WrapsAround) {
  EXPECT_EQ(compare(make_flag(1, kTag, 0), make_flag(1, kTag, kLast)), Seen::arrived);
  EXPECT_EQ(compare(make_flag(1, kTag, kLast), make_flag(1, kTag, 0)), Seen::not_yet);
  EXPECT_EQ(compare(make_flag(1, kTag, kLast + 1), make_flag(1, kTag, 0)), Seen::arrived);
  EXPECT_EQ(compare(make_flag(1, kOther, kLast), make_flag(1, kTag, kLast)), Seen::mismatch);
  // The borrow of the difference does not reach tag and generation.
  EXPECT_EQ(compare(make_flag(1, 0, 0), make_flag(1, 0xffff, kLast)), Seen::arrived);
}

TEST(BarrierFlag, FurtherAheadThanCanBeIsNotYet) {
  const std::uint64_t wanted = make_flag(1, kTag, 7);
  EXPECT_EQ(compare(make_flag(1, kTag, 7 + kMostAhead), wanted), Seen::arrived);
  EXPECT_EQ(compare(make_flag(1, kTag, 7 + kMostAhead + 1), wanted), Seen::not_yet);
  EXPECT_EQ(compare(make_flag(1, kTag, 0xff00000007), wanted), Seen::not_yet) << "half written";
  EXPECT_EQ(compare(make_flag(1, kTag, kLast / 2), wanted), Seen::not_yet);
}

TEST(BarrierFlag, CountsOnlyItsOwnGeneration) {
  EXPECT_EQ(count_of(make_flag(3, kTag, 9), 3), 9u);
  EXPECT_EQ(count_of(make_flag(3, kTag, 9), 0x103), 9u);
  EXPECT_EQ(count_of(make_flag(3, kTag, 9), 4), 0u);
}

TEST(BarrierTag, DependsOnRanksAndAlgorithm) {
  std::set<std::uint16_t> tags;
  std::size_t count = 0;
  for (const auto algorithm : {BarrierAlgorithm::centralized, BarrierAlgorithm::binary_tree,
                               BarrierAlgorithm::dissemination})
    for (unsigned set = 3; set < 64; ++set) {
      std::vector<Rank> ranks;
      for (Rank rank = 0; rank < 6; ++rank)
        if ((set >> rank & 1) != 0) ranks.push_back(rank);
      tags.insert(make_tag(ranks, algorithm));
      ++count;
    }
  EXPECT_EQ(tags.size(), count);
}

}  // namespace
}  // namespace verbatim::detail
