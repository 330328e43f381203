// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a GID is classified by the rules of IPv6, and printed as an IPv6 address.
#include "verbatim/verbs/gid.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <utility>

namespace verbatim {
namespace {

Gid gid(const char* text) {
  Gid result;
  EXPECT_EQ(inet_pton(AF_INET6, text, result.bytes.data()), 1) << text;
  return result;
}

TEST(Gid, KnowsZero) {
  EXPECT_TRUE(Gid{}.is_zero());
  EXPECT_FALSE(gid("::1").is_zero());
  EXPECT_FALSE(gid("8000::").is_zero());
}

TEST(Gid, LinkLocalIsTenBitsLong) {
  EXPECT_TRUE(gid("fe80::1").is_link_local());
  EXPECT_TRUE(gid("febf:ffff::").is_link_local());
  EXPECT_FALSE(gid("fec0::1").is_link_local());
  EXPECT_FALSE(gid("fe40::1").is_link_local());
  EXPECT_FALSE(gid("ff80::1").is_link_local());
}

TEST(Gid, Ipv4MappedNeedsTheWholePrefix) {
  EXPECT_TRUE(gid("::ffff:10.0.0.1").is_ipv4_mapped());
  EXPECT_TRUE(gid("::ffff:0.0.0.0").is_ipv4_mapped());
  EXPECT_FALSE(gid("::10.0.0.1").is_ipv4_mapped());
  EXPECT_FALSE(gid("::fffe:10.0.0.1").is_ipv4_mapped());
  EXPECT_FALSE(gid("::1:ffff:10.0.0.1").is_ipv4_mapped());
  EXPECT_FALSE(gid("100::ffff:10.0.0.1").is_ipv4_mapped());
}

TEST(Gid, SubnetPrefixIsTheFirstHalfInHostOrder) {
  EXPECT_EQ(gid("fe80::1234").subnet_prefix(), 0xfe80000000000000u);
  EXPECT_EQ(gid("102:304:506:708:90a:b0c:d0e:f10").subnet_prefix(), 0x0102030405060708u);
}

TEST(Gid, PrintsAsIpv6) {
  EXPECT_EQ(to_string(Gid{}), "::");
  EXPECT_EQ(to_string(gid("fe80::1")), "fe80::1");
  EXPECT_EQ(to_string(gid("::ffff:10.0.0.1")), "::ffff:10.0.0.1");
  EXPECT_EQ(to_string(gid("102:304:506:708:90a:b0c:d0e:f10")), "102:304:506:708:90a:b0c:d0e:f10");
}

TEST(Gid, ComparesByteByByte) {
  EXPECT_LT(gid("fe80::1"), gid("fe80::2"));
  EXPECT_LT(gid("fe80::2"), gid("fe81::1"));
  EXPECT_EQ(gid("fe80::1"), gid("fe80:0::1"));
}

TEST(GidType, HasTheVerbsValues) {
  EXPECT_EQ(std::to_underlying(GidType::infiniband), IBV_GID_TYPE_IB);
  EXPECT_EQ(std::to_underlying(GidType::roce_v1), IBV_GID_TYPE_ROCE_V1);
  EXPECT_EQ(std::to_underlying(GidType::roce_v2), IBV_GID_TYPE_ROCE_V2);
}

}  // namespace
}  // namespace verbatim
