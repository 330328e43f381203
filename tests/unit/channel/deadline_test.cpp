// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every way to give a deadline means what it says, also at both ends of the clock.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "verbatim/channel/deadline.hpp"

namespace verbatim::test {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;
using Kind = Deadline::Kind;

TEST(Deadline, IsTheChannelsOwnUnlessSaid) { EXPECT_EQ(Deadline{}.kind(), Kind::own); }

TEST(Deadline, StaysRelative) {
  const Deadline deadline = 5ms;
  EXPECT_EQ(deadline.kind(), Kind::relative);
  EXPECT_EQ(deadline.limit(), 5ms);
  EXPECT_EQ(Deadline{std::chrono::duration<double>{0.25}}.limit(), 250ms);
}

TEST(Deadline, PastIsNow) {
  for (const Deadline each :
       {Deadline{-1ns}, Deadline{nanoseconds::min()}, Deadline{-5h},
        Deadline{std::chrono::hours::min()},
        Deadline{std::chrono::duration<double>{std::numeric_limits<double>::quiet_NaN()}}}) {
    EXPECT_EQ(each.kind(), Kind::relative);
    EXPECT_EQ(each.limit(), 0ns);
  }
  EXPECT_EQ(Deadline{Deadline::Clock::time_point::min()}.when(), Deadline::Clock::time_point{});
}

TEST(Deadline, TooFarAwayIsNever) {
  for (const Deadline each :
       {Deadline{nanoseconds::max()}, Deadline{std::chrono::hours::max()},
        Deadline{std::chrono::years{1000}}, Deadline{std::chrono::duration<double>{1e300}},
        Deadline{Deadline::Clock::time_point::max()}, kForever})
    EXPECT_EQ(each.kind(), Kind::never);
  EXPECT_EQ(Deadline{std::chrono::years{30}}.kind(), Kind::relative);
}

TEST(Deadline, KeepsTheTimeOfDay) {
  const auto when = Deadline::Clock::now() + 3s;
  const Deadline deadline = when;
  EXPECT_EQ(deadline.kind(), Kind::absolute);
  EXPECT_EQ(deadline.when(), when);
}

}  // namespace
}  // namespace verbatim::test
