// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two endpoints that can talk agree, and each sees the mirror image of the other; two that
//       cannot get the reason.
// Method: pairs that differ in one thing, then random pairs (seeded).
#include "verbatim/verbs/negotiate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/endpoints.hpp"
#include "support/seed.hpp"

namespace verbatim {
namespace {

using test::gid;
using Gids = std::vector<Endpoint::CandidateGid>;
constexpr auto kV1 = GidType::roce_v1;
constexpr auto kV2 = GidType::roce_v2;
constexpr auto kIb = GidType::infiniband;

Endpoint roce(std::uint64_t nonce, const char* address) {
  Endpoint endpoint;
  endpoint.nonce = nonce;
  endpoint.link_layer = LinkLayer::ethernet;
  endpoint.gids = {{gid(address), 0, kV2}};
  endpoint.queue_pair = QpNumber{static_cast<std::uint32_t>(100 + nonce)};
  endpoint.psn = PacketSequenceNumber::from_value(static_cast<std::uint32_t>(nonce)).value();
  endpoint.partition_key = PartitionKey{0xffff};
  endpoint.mtu = MaximumTransferUnit::bytes_1024;
  endpoint.read_atomic_initiator = 16;
  endpoint.read_atomic_responder = 16;
  endpoint.max_message_bytes = 1u << 30;
  endpoint.atomics = true;
  return endpoint;
}

Endpoint infiniband(std::uint64_t nonce, unsigned lid, const char* address) {
  Endpoint endpoint = roce(nonce, address);
  endpoint.link_layer = LinkLayer::infiniband;
  endpoint.lid = Lid{static_cast<std::uint16_t>(lid)};
  endpoint.gids = {{gid(address), 0, kIb}};
  return endpoint;
}

struct Pair {
  Endpoint a = roce(1, "::ffff:10.0.0.1");
  Endpoint b = roce(2, "::ffff:10.0.0.2");
};

void expect_refused(const Endpoint& a, const Endpoint& b, const char* field) {
  for (const auto& result : {negotiate(a, b), negotiate(b, a)}) {
    ASSERT_FALSE(result) << field;
    EXPECT_EQ(result.error(), Errc::incompatible);
    EXPECT_STREQ(result.error().operation, "negotiate");
    EXPECT_STREQ(result.error().field, field);
  }
  EXPECT_STREQ(choose_path(a, b).error().field, field);
}

// ---- What both sides set

TEST(Negotiate, EachSideLearnsTheOther) {
  const Pair pair;
  const auto agreement = negotiate(pair.a, pair.b).value();
  EXPECT_EQ(agreement.remote_queue_pair, pair.b.queue_pair);
  EXPECT_EQ(agreement.send_psn, pair.a.psn);
  EXPECT_EQ(agreement.receive_psn, pair.b.psn);
  EXPECT_EQ(agreement.remote_nonce, pair.b.nonce);
  EXPECT_TRUE(agreement.path.global);
  EXPECT_EQ(agreement.path.remote_gid, gid("::ffff:10.0.0.2"));
  EXPECT_EQ(agreement.path.gid_type, kV2);
  EXPECT_EQ(agreement.path.remote_lid, Lid{});
}

TEST(Negotiate, TakesTheSmallerMtuAndMessage) {
  Pair pair;
  pair.b.mtu = MaximumTransferUnit::bytes_4096;
  pair.b.max_message_bytes = 4096;
  for (const auto& agreement :
       {negotiate(pair.a, pair.b).value(), negotiate(pair.b, pair.a).value()}) {
    EXPECT_EQ(agreement.mtu, MaximumTransferUnit::bytes_1024);
    EXPECT_EQ(agreement.max_message_bytes, 4096u);
  }
}

TEST(Negotiate, TakesTheLongerTimeoutAndUnlimitedIsLongest) {
  Pair pair;
  pair.a.ack_timeout = AckTimeout::limited(14).value();
  pair.b.ack_timeout = AckTimeout::limited(18).value();
  EXPECT_EQ(negotiate(pair.a, pair.b)->ack_timeout.code(), 18);
  EXPECT_EQ(negotiate(pair.b, pair.a)->ack_timeout.code(), 18);
  pair.a.ack_timeout = AckTimeout::unlimited();
  EXPECT_EQ(negotiate(pair.a, pair.b)->ack_timeout, AckTimeout::unlimited());
  EXPECT_EQ(negotiate(pair.b, pair.a)->ack_timeout, AckTimeout::unlimited());
}

TEST(Negotiate, ReadsAreWhatOneAsksAndTheOtherServes) {
  Pair pair;
  pair.a.read_atomic_initiator = 4;
  pair.a.read_atomic_responder = 32;
  pair.b.read_atomic_initiator = 8;
  pair.b.read_atomic_responder = 2;
  const auto a = negotiate(pair.a, pair.b).value();
  EXPECT_EQ(a.max_read_atomic, 2);
  EXPECT_EQ(a.max_dest_read_atomic, 8);
  const auto b = negotiate(pair.b, pair.a).value();
  EXPECT_EQ(b.max_read_atomic, 8);
  EXPECT_EQ(b.max_dest_read_atomic, 2);
}

TEST(Negotiate, AtomicsNeedBothDevicesAndRoomForOne) {
  Pair pair;
  EXPECT_TRUE(negotiate(pair.a, pair.b)->atomics);
  pair.b.read_atomic_responder = 0;
  EXPECT_FALSE(negotiate(pair.a, pair.b)->atomics);
  EXPECT_TRUE(negotiate(pair.b, pair.a)->atomics);  // In the other direction there is room.
  pair.b.atomics = false;
  EXPECT_FALSE(negotiate(pair.b, pair.a)->atomics);
}

TEST(Negotiate, UnreliableTypesHaveNoReads) {
  for (const auto type :
       {QueuePairType::unreliable_connection, QueuePairType::unreliable_datagram}) {
    Pair pair;
    pair.a.type = pair.b.type = type;
    const auto agreement = negotiate(pair.a, pair.b).value();
    EXPECT_EQ(agreement.max_read_atomic, 0);
    EXPECT_EQ(agreement.max_dest_read_atomic, 0);
    EXPECT_FALSE(agreement.atomics);
  }
}

// ---- Refusals

TEST(Negotiate, RefusesAnotherType) {
  Pair pair;
  pair.b.type = QueuePairType::unreliable_datagram;
  expect_refused(pair.a, pair.b, "type");
  const Error error = negotiate(pair.a, pair.b).error();
  EXPECT_EQ(error.value, 2u);  // Ours,
  EXPECT_EQ(error.limit, 4u);  // and the peer's.
}

TEST(Negotiate, RefusesTheBuiltInDeviceAgainstARealOne) {
  Pair pair;
  pair.b.transport = Transport::soft;
  expect_refused(pair.a, pair.b, "transport");
  pair.a.transport = Transport::kernel_software;
  expect_refused(pair.a, pair.b, "transport");
  pair.a.transport = Transport::soft;
  EXPECT_TRUE(negotiate(pair.a, pair.b));
}

TEST(Negotiate, AdapterAndKernelSoftwareMeet) {
  Pair pair;
  pair.b.transport = Transport::kernel_software;
  EXPECT_TRUE(negotiate(pair.a, pair.b));
}

TEST(Negotiate, RefusesAnotherFabric) {
  Pair pair;
  pair.a.transport = pair.b.transport = Transport::soft;
  pair.a.fabric_id = 1;
  pair.b.fabric_id = 2;
  expect_refused(pair.a, pair.b, "fabric_id");
}

TEST(Negotiate, RefusesAnotherLinkLayer) {
  expect_refused(roce(1, "::ffff:10.0.0.1"), infiniband(2, 5, "fe80::2"), "link_layer");
}

TEST(Negotiate, UnspecifiedLinkLayerIsInfiniband) {
  Endpoint old = infiniband(1, 4, "fe80::1");
  old.link_layer = LinkLayer::unspecified;
  const auto agreement = negotiate(old, infiniband(2, 5, "fe80::2")).value();
  EXPECT_FALSE(agreement.path.global);
  EXPECT_EQ(agreement.path.remote_lid, Lid{5});
}

TEST(Negotiate, PartitionsAreEqualInFifteenBitsWithOneFullMember) {
  struct Row {
    unsigned a, b;
    bool works;
  };
  for (const Row& row :
       {Row{0xffff, 0xffff, true}, Row{0xffff, 0x7fff, true}, Row{0x7fff, 0x7fff, false},
        Row{0x8001, 0x0001, true}, Row{0x8001, 0x8002, false}, Row{0x8001, 0x0002, false},
        Row{0x8000, 0x8000, false}, Row{0, 0, false}}) {
    Pair pair;
    pair.a.partition_key = PartitionKey{static_cast<std::uint16_t>(row.a)};
    pair.b.partition_key = PartitionKey{static_cast<std::uint16_t>(row.b)};
    if (row.works) {
      EXPECT_TRUE(negotiate(pair.a, pair.b)) << row.a << ' ' << row.b;
      EXPECT_TRUE(negotiate(pair.b, pair.a)) << row.a << ' ' << row.b;
    } else {
      expect_refused(pair.a, pair.b, "partition_key");
    }
  }
}

TEST(Negotiate, RefusesWithoutACommonKindOfAddress) {
  const auto refused = [](const Gids& a, const Gids& b) {
    Pair pair;
    pair.a.gids = a;
    pair.b.gids = b;
    expect_refused(pair.a, pair.b, "gid");
  };
  const Endpoint::CandidateGid v4{gid("::ffff:10.0.0.1"), 0, kV2};
  refused({v4}, {});
  refused({v4}, {{gid("2001:db8::2"), 0, kV2}});
  refused({v4}, {{gid("fe80::2"), 0, kV2}});
  refused({v4}, {{gid("::ffff:10.0.0.2"), 0, kV1}});
  refused({v4}, {{Gid{}, 0, kV2}});
  refused({{Gid{}, 0, kV2}}, {{Gid{}, 0, kV2}});
  // An InfiniBand address is of no use on Ethernet.
  refused({{gid("fe80::1"), 0, kIb}}, {{gid("fe80::2"), 0, kIb}});
}

// ---- Which address

struct Choice {
  const char* name;
  Gids a;
  Gids b;
  std::uint32_t a_index;
  std::uint32_t b_index;
};

class ChosenGid : public testing::TestWithParam<Choice> {};

TEST_P(ChosenGid, IsTheSameForBothSides) {
  Pair pair;  // a has the smaller nonce.
  pair.a.gids = GetParam().a;
  pair.b.gids = GetParam().b;
  EXPECT_EQ(choose_path(pair.a, pair.b)->local_gid_index, GetParam().a_index);
  EXPECT_EQ(choose_path(pair.b, pair.a)->local_gid_index, GetParam().b_index);
  // The order of the list does not matter.
  std::ranges::reverse(pair.a.gids);
  EXPECT_EQ(choose_path(pair.a, pair.b)->local_gid_index, GetParam().a_index);
  EXPECT_EQ(choose_path(pair.b, pair.a)->local_gid_index, GetParam().b_index);
}

INSTANTIATE_TEST_SUITE_P(
    Rule, ChosenGid,
    testing::Values(Choice{"Ipv4BeforeIpv6",
                           {{gid("2001:db8::1"), 0, kV2}, {gid("::ffff:10.0.0.1"), 4, kV2}},
                           {{gid("2001:db8::2"), 0, kV2}, {gid("::ffff:10.9.9.9"), 5, kV2}},
                           4,
                           5},
                    Choice{"GlobalBeforeLinkLocal",
                           {{gid("fe80::1"), 0, kV2}, {gid("2001:db8::1"), 4, kV2}},
                           {{gid("fe80::2"), 0, kV2}, {gid("2001:db8:0:7::2"), 5, kV2}},
                           4,
                           5},
                    Choice{"LinkLocalV2BeforeV1",
                           {{gid("::ffff:10.0.0.1"), 0, kV1}, {gid("fe80::1"), 4, kV2}},
                           {{gid("::ffff:10.0.0.2"), 0, kV1}, {gid("fe80::2"), 5, kV2}},
                           4,
                           5},
                    Choice{"V1IfNothingElse",
                           {{gid("fe80::1"), 2, kV1}, {gid("::ffff:10.0.0.1"), 4, kV2}},
                           {{gid("fe80::2"), 3, kV1}},
                           2,
                           3},
                    Choice{"SameIpv4SubnetFirst",
                           {{gid("::ffff:10.0.0.1"), 0, kV2}, {gid("::ffff:10.0.7.1"), 4, kV2}},
                           {{gid("::ffff:10.0.7.2"), 5, kV2}},
                           4,
                           5},
                    Choice{"SameIpv6SubnetFirst",
                           {{gid("2001:db8:0:1::1"), 0, kV2}, {gid("2001:db8:0:2::1"), 4, kV2}},
                           {{gid("2001:db8:0:2::2"), 5, kV2}},
                           4,
                           5},
                    Choice{"SubnetDoesNotBeatClass",
                           {{gid("::ffff:10.0.0.1"), 4, kV2}, {gid("2001:db8::1"), 0, kV2}},
                           {{gid("::ffff:10.9.9.2"), 5, kV2}, {gid("2001:db8::2"), 0, kV2}},
                           4,
                           5},
                    Choice{"SmallerIndexAtTheSmallerNonceDecides",
                           {{gid("::ffff:10.0.0.1"), 2, kV2}, {gid("::ffff:10.0.1.1"), 3, kV2}},
                           {{gid("::ffff:10.0.0.2"), 8, kV2}, {gid("::ffff:10.0.1.2"), 7, kV2}},
                           2,
                           8},
                    Choice{"ThenTheSmallerIndexAtTheOther",
                           {{gid("::ffff:10.0.0.1"), 2, kV2}},
                           {{gid("::ffff:10.0.0.2"), 8, kV2}, {gid("::ffff:10.0.0.3"), 7, kV2}},
                           2,
                           7},
                    Choice{"ZeroIsSkipped",
                           {{Gid{}, 0, kV2}, {gid("2001:db8::1"), 4, kV2}},
                           {{Gid{}, 0, kV2}, {gid("2001:db8::2"), 5, kV2}},
                           4,
                           5}),
    [](const auto& row) { return std::string{row.param.name}; });

// ---- InfiniBand

TEST(NegotiateInfiniband, UsesLidsWithinASubnet) {
  const auto path = choose_path(infiniband(1, 4, "fe80::1"), infiniband(2, 5, "fe80::2")).value();
  EXPECT_FALSE(path.global);
  EXPECT_EQ(path.remote_lid, Lid{5});
}

TEST(NegotiateInfiniband, NeedsNoGidsWithinASubnet) {
  Endpoint bare = infiniband(1, 4, "fe80::1");
  bare.gids.clear();
  EXPECT_FALSE(choose_path(bare, infiniband(2, 5, "fe80::2"))->global);
}

TEST(NegotiateInfiniband, UsesGidsAcrossSubnets) {
  const auto path =
      choose_path(infiniband(1, 4, "fec0::1"), infiniband(2, 5, "fec0:0:0:1::2")).value();
  EXPECT_TRUE(path.global);
  EXPECT_EQ(path.remote_gid, gid("fec0:0:0:1::2"));
  EXPECT_EQ(path.gid_type, kIb);
}

TEST(NegotiateInfiniband, OneCommonSubnetIsEnough) {
  Endpoint two = infiniband(1, 4, "fec0::1");
  two.gids.push_back({gid("fec0:0:0:1::1"), 1, kIb});
  EXPECT_FALSE(choose_path(two, infiniband(2, 5, "fec0:0:0:1::2"))->global);
}

TEST(NegotiateInfiniband, UsesGidsWhereAPortDemandsIt) {
  const Endpoint a = infiniband(1, 4, "fe80::1");
  Endpoint b = infiniband(2, 5, "fe80::2");
  b.grh_required = true;
  for (const auto& path : {choose_path(a, b).value(), choose_path(b, a).value()})
    EXPECT_TRUE(path.global);
  EXPECT_EQ(choose_path(a, b)->remote_lid, Lid{5});  // The link still needs it.
  b.gids.clear();
  expect_refused(a, b, "gid");
}

TEST(NegotiateInfiniband, RefusesAPortWithoutLid) {
  expect_refused(infiniband(1, 0, "fe80::1"), infiniband(2, 5, "fe80::2"), "lid");
}

TEST(NegotiateInfiniband, NeedsNoLidWithAGlobalHeader) {
  Endpoint a = infiniband(1, 0, "fe80::1");
  a.grh_required = true;
  EXPECT_TRUE(negotiate(a, infiniband(2, 0, "fe80::2")));
}

// ---- Self and mirror

TEST(Negotiate, AQueuePairMayBeConnectedToItself) {
  Endpoint self = roce(7, "::ffff:10.0.0.1");
  self.gids = {
      {gid("fe80::1"), 0, kV2}, {gid("::ffff:10.0.0.1"), 5, kV2}, {gid("::ffff:10.0.0.9"), 3, kV2}};
  const auto agreement = negotiate(self, self).value();
  EXPECT_EQ(agreement.path.remote_gid, gid("::ffff:10.0.0.9"));
  EXPECT_EQ(agreement.path.local_gid_index, 3u);
  EXPECT_EQ(agreement.remote_queue_pair, self.queue_pair);
  EXPECT_EQ(agreement.send_psn, agreement.receive_psn);
}

/// The address that `mine` sends from is the one that `theirs` sends to, and so on.
void expect_mirror(const Endpoint& local, const Agreement& mine, const Agreement& theirs) {
  EXPECT_EQ(mine.path.global, theirs.path.global);
  EXPECT_EQ(mine.path.gid_type, theirs.path.gid_type);
  if (mine.path.global) {
    EXPECT_TRUE(std::ranges::any_of(local.gids, [&](const auto& candidate) {
      return candidate.gid == theirs.path.remote_gid &&
             candidate.index == mine.path.local_gid_index && candidate.type == mine.path.gid_type;
    }));
  } else {
    EXPECT_EQ(theirs.path.remote_lid, local.lid);
  }
  EXPECT_EQ(mine.send_psn, theirs.receive_psn);
  EXPECT_EQ(mine.mtu, theirs.mtu);
  EXPECT_EQ(mine.max_read_atomic, theirs.max_dest_read_atomic);
  EXPECT_EQ(mine.max_message_bytes, theirs.max_message_bytes);
  EXPECT_EQ(mine.ack_timeout, theirs.ack_timeout);
  EXPECT_EQ(theirs.remote_queue_pair, local.queue_pair);
  EXPECT_EQ(theirs.remote_nonce, local.nonce);
}

// A valid table has each index once. A hostile or careless peer must not split the two views.
TEST(Negotiate, RepeatedIndexesStillMirror) {
  Pair pair;
  pair.a.gids = {{gid("::ffff:10.0.0.1"), 1, kV2}, {gid("::ffff:10.0.7.1"), 1, kV2}};
  pair.b.gids = {{gid("::ffff:10.0.7.2"), 1, kV2}, {gid("::ffff:10.0.0.2"), 1, kV2}};
  const auto ab = negotiate(pair.a, pair.b).value();
  const auto ba = negotiate(pair.b, pair.a).value();
  EXPECT_EQ(ab.path.remote_gid, gid("::ffff:10.0.0.2"));
  EXPECT_EQ(ba.path.remote_gid, gid("::ffff:10.0.0.1"));
}

/// Random, but similar enough that most pairs get as far as the addresses.
std::pair<Endpoint, Endpoint> random_pair(std::mt19937_64& random) {
  std::pair<Endpoint, Endpoint> pair{test::random_endpoint(random), test::random_endpoint(random)};
  auto& [a, b] = pair;
  b.type = a.type;
  b.transport = a.transport;
  b.fabric_id = a.fabric_id;
  b.link_layer = a.link_layer;
  a.partition_key = b.partition_key = PartitionKey{0xffff};
  if (random() % 4 == 0) b.nonce = a.nonce;
  if (random() % 8 == 0) b.gids = a.gids;
  if (random() % 8 == 0) b = a;
  if (random() % 16 == 0) b.lid = Lid{};
  return pair;
}

TEST(Negotiate, BothSidesMirrorEachOther) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  int agreed = 0;
  int refused = 0;
  for (int round = 0; round < 20000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const auto [a, b] = random_pair(random);
    const auto ab = negotiate(a, b);
    const auto ba = negotiate(b, a);
    ASSERT_EQ(ab.has_value(), ba.has_value());
    if (ab) {
      ++agreed;
      expect_mirror(a, *ab, *ba);
      expect_mirror(b, *ba, *ab);
    } else {
      ++refused;
      ASSERT_STREQ(ab.error().field, ba.error().field);
      ASSERT_EQ(ab.error().value, ba.error().limit);
      ASSERT_EQ(ab.error().limit, ba.error().value);
    }
  }
  EXPECT_GT(agreed, 1000);  // Otherwise the test shows little.
  EXPECT_GT(refused, 1000);
}

TEST(Negotiate, AgreesTheSameFromDecodedRecords) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  for (int round = 0; round < 1000; ++round) {
    const auto [a, b] = random_pair(random);
    const auto here = negotiate(a, b);
    const auto there = negotiate(a, decode_endpoint(encode(b)).value());
    ASSERT_EQ(here.has_value(), there.has_value());
    if (here) {
      ASSERT_EQ(here->path.remote_gid, there->path.remote_gid);
    }
  }
}

}  // namespace
}  // namespace verbatim
