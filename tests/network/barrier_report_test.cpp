// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/barrier_report.cpp
#include <gtest/gtest.h>

#include "network/barrier_report.hpp"
#include "support/require.hpp"

namespace verbatim::detail {
namespace {

const BarrierReport kReport{.stand = BarrierReport::Stand::waiting,
                            .tag = 0x1234,
                            .generation = 7,
                            .since = 0x123456789abc,
                            .awaited = {3, 9}};

TEST(BarrierReport, ComesBackAsItWas) {
  EXPECT_EQ(test::require(decode_report(encode(kReport))), kReport);
  EXPECT_EQ(test::require(decode_report(encode(BarrierReport{}))), BarrierReport{});
}

TEST(BarrierReport, FitsAnAnswerWhateverItSays) {
  BarrierReport long_one = kReport;
  long_one.awaited.assign(1000, 5);
  const auto bytes = encode(long_one);
  EXPECT_LE(bytes.size(), 256u);
  EXPECT_EQ(test::require(decode_report(bytes)).awaited.size(), BarrierReport::kMostAwaited);
}

TEST(BarrierReport, IsMalformedWhenCutOrTooLong) {
  auto bytes = encode(kReport);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_TRUE(test::fails_with(decode_report(std::span{bytes}.first(size)), Errc::malformed))
        << size;
  bytes.push_back(std::byte{0});
  EXPECT_TRUE(test::fails_with(decode_report(bytes), Errc::malformed));
}

TEST(BarrierReport, IsMalformedWithAnotherVersionOrAWrongNumber) {
  auto bytes = encode(kReport);
  bytes[0] = std::byte{2};
  EXPECT_TRUE(test::fails_with(decode_report(bytes), Errc::malformed));
  bytes = encode(kReport);
  bytes[1] = std::byte{3};
  EXPECT_TRUE(test::fails_with(decode_report(bytes), Errc::malformed));
  bytes = encode(kReport);
  bytes[16] = std::byte{33};
  EXPECT_TRUE(test::fails_with(decode_report(bytes), Errc::malformed));
}

}  // namespace
}  // namespace verbatim::detail
