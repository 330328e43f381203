// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the enums are the verbs' own, and every value has a name.
#include "verbatim/verbs/port.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <utility>

namespace verbatim {
namespace {

TEST(PortState, HasTheVerbsValues) {
  EXPECT_EQ(std::to_underlying(PortState::nop), IBV_PORT_NOP);
  EXPECT_EQ(std::to_underlying(PortState::down), IBV_PORT_DOWN);
  EXPECT_EQ(std::to_underlying(PortState::initializing), IBV_PORT_INIT);
  EXPECT_EQ(std::to_underlying(PortState::armed), IBV_PORT_ARMED);
  EXPECT_EQ(std::to_underlying(PortState::active), IBV_PORT_ACTIVE);
  EXPECT_EQ(std::to_underlying(PortState::active_deferred), IBV_PORT_ACTIVE_DEFER);
}

TEST(PortState, IsNamedAsTheKernelNamesIt) {
  EXPECT_STREQ(to_string(PortState::nop), "NOP");
  EXPECT_STREQ(to_string(PortState::down), "DOWN");
  EXPECT_STREQ(to_string(PortState::initializing), "INIT");
  EXPECT_STREQ(to_string(PortState::armed), "ARMED");
  EXPECT_STREQ(to_string(PortState::active), "ACTIVE");
  EXPECT_STREQ(to_string(PortState::active_deferred), "ACTIVE_DEFER");
  EXPECT_STREQ(to_string(static_cast<PortState>(77)), "unknown state");
}

TEST(LinkLayer, HasTheVerbsValuesAndNames) {
  EXPECT_EQ(std::to_underlying(LinkLayer::unspecified), IBV_LINK_LAYER_UNSPECIFIED);
  EXPECT_EQ(std::to_underlying(LinkLayer::infiniband), IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(std::to_underlying(LinkLayer::ethernet), IBV_LINK_LAYER_ETHERNET);
  EXPECT_STREQ(to_string(LinkLayer::unspecified), "unspecified");
  EXPECT_STREQ(to_string(LinkLayer::infiniband), "InfiniBand");
  EXPECT_STREQ(to_string(LinkLayer::ethernet), "Ethernet");
  EXPECT_STREQ(to_string(static_cast<LinkLayer>(77)), "unknown link layer");
}

TEST(MaximumTransferUnit, CodesAreTheVerbsOwn) {
  EXPECT_EQ(mtu_from_code(IBV_MTU_256).value(), MaximumTransferUnit::bytes_256);
  EXPECT_EQ(mtu_from_code(IBV_MTU_512).value(), MaximumTransferUnit::bytes_512);
  EXPECT_EQ(mtu_from_code(IBV_MTU_1024).value(), MaximumTransferUnit::bytes_1024);
  EXPECT_EQ(mtu_from_code(IBV_MTU_2048).value(), MaximumTransferUnit::bytes_2048);
  EXPECT_EQ(mtu_from_code(IBV_MTU_4096).value(), MaximumTransferUnit::bytes_4096);
}

TEST(MaximumTransferUnit, CountsBytes) {
  EXPECT_EQ(byte_count(MaximumTransferUnit::bytes_256), 256u);
  EXPECT_EQ(byte_count(MaximumTransferUnit::bytes_1024), 1024u);
  EXPECT_EQ(byte_count(MaximumTransferUnit::bytes_4096), 4096u);
}

TEST(MaximumTransferUnit, RefusesOtherCodes) {
  for (const unsigned code : {0u, 6u, 256u + 1, 1024u}) {
    const auto result = mtu_from_code(code);
    ASSERT_FALSE(result) << code;
    EXPECT_EQ(result.error(), Errc::invalid_argument);
    EXPECT_STREQ(result.error().field, "mtu");
    EXPECT_EQ(result.error().value, code);
  }
}

TEST(LinkRate, IsLanesTimesSpeed) {
  EXPECT_EQ(link_rate_mbps(1, 1), 2500u);      // 1X SDR: as Soft-RoCE reports
  EXPECT_EQ(link_rate_mbps(2, 32), 100000u);   // 4X EDR
  EXPECT_EQ(link_rate_mbps(2, 128), 400000u);  // 4X NDR
  EXPECT_EQ(link_rate_mbps(16, 64), 100000u);  // 2X HDR
  EXPECT_EQ(link_rate_mbps(8, 4), 120000u);    // 12X QDR
}

TEST(LinkRate, OfUnknownCodesIsZero) {
  EXPECT_EQ(link_rate_mbps(0, 32), 0u);
  EXPECT_EQ(link_rate_mbps(2, 0), 0u);
  EXPECT_EQ(link_rate_mbps(3, 32), 0u);
  EXPECT_EQ(link_rate_mbps(2, 255), 0u);
}

}  // namespace
}  // namespace verbatim
