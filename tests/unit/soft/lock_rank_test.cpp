// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a lock that is taken out of order ends a checked program, and both places are named.
// Method: the checker's own functions, which every build has; locks of two ranks, if the build
//         checks them. Whether the engine was compiled to check, too: it says so itself.
#include "soft/shared/lock_rank.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <mutex>

namespace verbatim::engine {
namespace {

constexpr LockRank kLow = LockRank::lifetime;
constexpr LockRank kHigh = LockRank::completer;

void take(LockRank rank, bool tried = false) {
  rank_taken(rank, tried, std::source_location::current());
}

class LockOrder : public testing::Test {
 protected:
  ~LockOrder() override { forget_ranks(); }
};

TEST_F(LockOrder, FromLowToHighIsFine) {
  take(kLow);
  take(kHigh);
  rank_released(kLow);  // In any order.
  rank_released(kHigh);
  take(kLow);
}

// The forked child takes them: if the parent held one, forking itself would be out of order.

TEST_F(LockOrder, FromHighToLowEndsTheProgramAndNamesBothPlaces) {
  EXPECT_DEATH(
      {
        take(kHigh);
        take(kLow);
      },
      "lock of rank .*lock_rank_test.*while.*lock_rank_test");
}

TEST_F(LockOrder, OneRankIsHeldOnceAtATime) {
  EXPECT_DEATH(
      {
        take(kHigh);
        take(kHigh);
      },
      "lock of rank");
}

TEST_F(LockOrder, LockThatIsOnlyTriedMayBeOutOfOrder) {
  EXPECT_DEATH(
      {
        take(kHigh);
        take(kLow, true);
        std::fputs("fine so far\n", stderr);
        take(kLow);
      },
      "fine so far\n.*lock of rank")
      << "it is held all the same";
}

TEST_F(LockOrder, ChildOfAForkHoldsNothing) {
  take(kHigh);
  forget_ranks();
  take(kLow);
}

TEST_F(LockOrder, IsCheckedByTheEngineIfThisBuildChecks) {
  EXPECT_EQ(ranks_are_checked(), kRanksChecked);
}

TEST_F(LockOrder, IsCheckedByTheLocksThemselves) {
  if (!kRanksChecked) GTEST_SKIP() << "this build does not check the order of locks";
  Ranked<kLow, std::mutex> low;
  Ranked<kHigh, std::mutex> high;
  EXPECT_DEATH(
      {
        const std::lock_guard held{high};
        low.lock();
      },
      "lock of rank");
  const std::lock_guard held{high};
  EXPECT_TRUE(low.try_lock());
  low.unlock();
}

}  // namespace
}  // namespace verbatim::engine
