// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no code outside the range of the wire can exist, and no timer is shorter than requested.
// Method: all codes, and durations around each step.
#include "verbatim/verbs/timers.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

TEST(MaxAckRetries, TakesZeroToSeven) {
  for (unsigned retries = 0; retries <= 7; ++retries) {
    EXPECT_EQ(MaxAckRetries::limited(retries).value().code(), retries);
    EXPECT_EQ(MaxAckRetries::limited(retries).value().retries(), retries);
  }
  EXPECT_EQ(MaxAckRetries{}.retries(), 7u);
}

TEST(MaxAckRetries, RefusesEightAndSaysSo) {
  const auto result = MaxAckRetries::limited(8);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), Errc::invalid_argument);
  EXPECT_STREQ(result.error().field, "retries");
  EXPECT_EQ(result.error().value, 8u);
  EXPECT_EQ(result.error().limit, 7u);
  EXPECT_FALSE(MaxAckRetries::limited(256));  // Not truncated to eight bits.
}

TEST(MaxRnrRetries, SevenRetriesAreNotUnlimited) {
  for (unsigned retries = 0; retries <= 6; ++retries)
    EXPECT_EQ(MaxRnrRetries::limited(retries).value().retries(), retries);
  EXPECT_EQ(MaxRnrRetries::limited(7).error().limit, 6u);
  EXPECT_FALSE(MaxRnrRetries::limited(256 + 3));
}

TEST(MaxRnrRetries, UnlimitedIsTheWiresSeven) {
  EXPECT_EQ(MaxRnrRetries::unlimited().code(), 7);
  EXPECT_EQ(MaxRnrRetries::unlimited().retries(), std::nullopt);
  EXPECT_EQ(MaxRnrRetries{}, MaxRnrRetries::unlimited());
}

TEST(MaxRnrRetries, CodeMayBeAllThreeBits) {
  for (unsigned code = 0; code <= 7; ++code)
    EXPECT_EQ(MaxRnrRetries::from_code(code).value().code(), code);
  EXPECT_EQ(MaxRnrRetries::from_code(7).value(), MaxRnrRetries::unlimited());
  EXPECT_FALSE(MaxRnrRetries::from_code(8));
}

TEST(MinRnrTimer, HasTheDurationsOfTheSpecification) {
  const double milliseconds[] = {655.36, .01,   .02,   .03,    .04,    .06,    .08,    .12,
                                 .16,    .24,   .32,   .48,    .64,    .96,    1.28,   1.92,
                                 2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                                 40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  for (unsigned code = 0; code < 32; ++code)
    EXPECT_DOUBLE_EQ(
        static_cast<double>(MinRnrTimer::from_code(code).value().duration().count()) / 1000,
        milliseconds[code])
        << code;
  EXPECT_EQ(MinRnrTimer{}.duration(), 640us);
  EXPECT_FALSE(MinRnrTimer::from_code(32));
}

TEST(MinRnrTimer, RisesFromCodeOneAndEndsWithCodeZero) {
  for (unsigned code = 2; code <= 32; ++code)
    EXPECT_LT(MinRnrTimer::from_code(code - 1)->duration(),
              MinRnrTimer::from_code(code % 32)->duration());
}

TEST(MinRnrTimer, RoundsUpNeverDown) {
  for (unsigned code = 1; code <= 32; ++code) {
    const auto timer = MinRnrTimer::from_code(code % 32).value();
    const auto next = MinRnrTimer::from_code((code + 1) % 32);
    EXPECT_EQ(MinRnrTimer::at_least(timer.duration()).value(), timer) << code;
    EXPECT_EQ(MinRnrTimer::at_least(timer.duration() - 1ns).value(), timer) << code;
    if (code < 32) {
      EXPECT_EQ(MinRnrTimer::at_least(timer.duration() + 1ns).value(), next) << code;
    }
  }
}

TEST(MinRnrTimer, RefusesWhatIsLongerThanTheLongest) {
  const auto result = MinRnrTimer::at_least(655360001ns);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), Errc::limit_exceeded);
  EXPECT_EQ(result.error().value, 655360001u);
  EXPECT_EQ(result.error().limit, 655360000u);
  EXPECT_FALSE(MinRnrTimer::at_least(nanoseconds::max()));
}

TEST(MinRnrTimer, ShortestForNothing) {
  EXPECT_EQ(MinRnrTimer::at_least(0ns).value().code(), 1);
  EXPECT_EQ(MinRnrTimer::at_least(-1s).value().code(), 1);
}

TEST(AckTimeout, ZeroIsUnlimitedOnlyByName) {
  EXPECT_EQ(AckTimeout::unlimited().code(), 0);
  EXPECT_EQ(AckTimeout::unlimited().duration(), std::nullopt);
  EXPECT_FALSE(AckTimeout::limited(0));
  EXPECT_EQ(AckTimeout::from_code(0).value(), AckTimeout::unlimited());
}

TEST(AckTimeout, TakesFiveBits) {
  for (unsigned code = 1; code <= 31; ++code)
    EXPECT_EQ(AckTimeout::limited(code).value().duration(), nanoseconds{4096LL << code});
  for (const unsigned code : {32u, 64u, 256u + 1}) {
    EXPECT_FALSE(AckTimeout::limited(code)) << code;
    EXPECT_FALSE(AckTimeout::from_code(code)) << code;
  }
  EXPECT_EQ(AckTimeout{}.code(), 14);
}

TEST(AckTimeout, RoundsUpNeverDown) {
  // The first three once gave a shorter time-out than requested, or none at all.
  EXPECT_EQ(AckTimeout::at_least(8193ns).value().code(), 2);
  EXPECT_EQ(AckTimeout::at_least(20000ns).value().code(), 3);
  EXPECT_EQ(AckTimeout::at_least(100ns).value().code(), 1);
  for (unsigned code = 1; code <= 31; ++code) {
    const auto exact = *AckTimeout::limited(code)->duration();
    EXPECT_EQ(AckTimeout::at_least(exact).value().code(), code);
    EXPECT_EQ(AckTimeout::at_least(exact - 1ns).value().code(), code);
    if (code < 31) {
      EXPECT_EQ(AckTimeout::at_least(exact + 1ns).value().code(), code + 1);
    }
  }
}

TEST(AckTimeout, NoWaitIsTheShortestNotTheUnlimited) {
  EXPECT_EQ(AckTimeout::at_least(0ns).value().code(), 1);
  EXPECT_EQ(AckTimeout::at_least(nanoseconds::min()).value().code(), 1);
}

TEST(AckTimeout, RefusesWhatIsLongerThanTheLongest) {
  const auto longest = *AckTimeout::limited(31)->duration();
  const auto result = AckTimeout::at_least(longest + 1ns);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), Errc::limit_exceeded);
  EXPECT_EQ(result.error().limit, static_cast<std::uint64_t>(longest.count()));
  EXPECT_FALSE(AckTimeout::at_least(nanoseconds::max()));
}

}  // namespace
}  // namespace verbatim
