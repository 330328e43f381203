// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a queue pair offers its peer every address that can work, best first, on the port and in
//       the partition that were requested or are the obvious choice.
// Method: ports, GID tables and partition tables that the test defines; the endpoint shows what was
//         chosen.
#include <gtest/gtest.h>
#include <net/if.h>

#include <array>
#include <string_view>
#include <vector>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbs/queue_pair.hpp"

namespace verbatim::test {
namespace {

class LocalEndpointTest : public NullDevice {
 protected:
  Result<PreparedQueuePair> prepare(const std::function<void(RouteOptions&)>& change = {}) {
    return Bench(open()).prepare([&](QueuePairOptions& options) {
      if (change) change(options.route);
    });
  }
  Endpoint endpoint(const std::function<void(RouteOptions&)>& change = {}) {
    return require(prepare(change)).endpoint();
  }
  void states(std::vector<ibv_port_state> wanted) {
    port_states = std::move(wanted);
    knobs.device.phys_port_cnt = static_cast<std::uint8_t>(port_states.size());
    table.query_port = [](ibv_context* context, std::uint8_t port, ibv_port_attr* to) {
      const int failed = verbatim_null_provider()->query_port(context, port, to);
      if (failed != 0) return failed;
      to->state = port_states[port - 1];
      to->lid = static_cast<std::uint16_t>(100 + port);
      return 0;
    };
  }
  void add_gid(std::array<std::uint8_t, 16> bytes, std::uint32_t index, std::uint32_t type,
               std::uint32_t interface = 0) {
    ibv_gid_entry& row = knobs.gids[knobs.gid_count++];
    row = {};
    std::ranges::copy(bytes, row.gid.raw);
    row.gid_index = index;
    row.port_num = 1;
    row.gid_type = type;
    row.ndev_ifindex = interface;
  }
  void use_ethernet() {
    knobs.port.link_layer = IBV_LINK_LAYER_ETHERNET;
    knobs.port.lid = 0;
    knobs.gid_count = 0;
  }
  static std::array<std::uint8_t, 16> ipv4(std::uint8_t last) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
  }
  static std::array<std::uint8_t, 16> ipv6(std::uint8_t last) {
    return {0x20, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  }
  static std::array<std::uint8_t, 16> link_local(std::uint8_t last) {
    return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  }
  static inline std::vector<ibv_port_state> port_states;
};

TEST_F(LocalEndpointTest, DescribesQueuePairAndPort) {
  knobs.fabric_id = 5;
  knobs.port.lid = 0x77;
  knobs.port.active_mtu = IBV_MTU_2048;
  knobs.port.flags = IBV_QPF_GRH_REQUIRED;
  const auto prepared = require(prepare());
  const Endpoint& endpoint = prepared.endpoint();
  EXPECT_EQ(endpoint.queue_pair, prepared.number());
  EXPECT_EQ(endpoint.transport, Transport::hardware);
  EXPECT_EQ(endpoint.fabric_id, 5u);
  EXPECT_EQ(endpoint.link_layer, LinkLayer::infiniband);
  EXPECT_EQ(endpoint.lid, Lid{0x77});
  EXPECT_TRUE(endpoint.grh_required);
  EXPECT_EQ(endpoint.type, QueuePairType::reliable_connection);
  EXPECT_EQ(endpoint.partition_key, PartitionKey{0xffff});
  EXPECT_EQ(endpoint.queue_key, QueueKey{0x11111111});
  EXPECT_EQ(endpoint.mtu, MaximumTransferUnit::bytes_2048);
  EXPECT_EQ(endpoint.read_atomic_initiator, 16);
  EXPECT_EQ(endpoint.read_atomic_responder, 16);
  EXPECT_EQ(endpoint.max_message_bytes, 1u << 31);
  EXPECT_EQ(endpoint.ack_timeout, AckTimeout{});
  EXPECT_EQ(endpoint.min_rnr_timer, MinRnrTimer{});
  EXPECT_TRUE(endpoint.atomics);
}

// A stale packet, or a recycled number, must not be mistaken for this connection.
TEST_F(LocalEndpointTest, NonceAndSequenceNumberAreNewEachTime) {
  const Endpoint first = endpoint();
  const Endpoint second = endpoint();
  EXPECT_NE(first.nonce, 0u);
  EXPECT_NE(first.nonce, second.nonce);
  EXPECT_NE(first.psn, second.psn);  // Fails once in 16 million runs.
}

TEST_F(LocalEndpointTest, SurvivesTheWire) {
  const Endpoint sent = endpoint();
  EXPECT_EQ(require(decode_endpoint(encode(sent))), sent);
  EXPECT_EQ(require(endpoint_from_json(to_json(sent))), sent);
}

TEST_F(LocalEndpointTest, TransferUnitIsThePortsOrLess) {
  knobs.port.active_mtu = IBV_MTU_1024;
  const Bench bench(open());
  const auto mtu_for = [&](MaximumTransferUnit wanted) {
    return require(bench.prepare([&](QueuePairOptions& options) { options.mtu = wanted; }))
        .endpoint()
        .mtu;
  };
  EXPECT_EQ(require(bench.prepare()).endpoint().mtu, MaximumTransferUnit::bytes_1024);
  EXPECT_EQ(mtu_for(MaximumTransferUnit::bytes_512), MaximumTransferUnit::bytes_512);
  EXPECT_EQ(mtu_for(MaximumTransferUnit::bytes_4096), MaximumTransferUnit::bytes_1024);
}

// ---- Ports

TEST_F(LocalEndpointTest, FirstActivePortIsTheDefault) {
  states({IBV_PORT_DOWN, IBV_PORT_ACTIVE, IBV_PORT_ACTIVE});
  EXPECT_EQ(endpoint().lid, Lid{102});
}

TEST_F(LocalEndpointTest, PortThatWasAskedForIsUsed) {
  states({IBV_PORT_ACTIVE, IBV_PORT_ACTIVE, IBV_PORT_ACTIVE});
  EXPECT_EQ(endpoint([](RouteOptions& route) { route.port = 3; }).lid, Lid{103});
}

TEST_F(LocalEndpointTest, PortThatIsNotActiveIsNamedWithItsState) {
  states({IBV_PORT_ACTIVE, IBV_PORT_ARMED});
  const auto prepared = prepare([](RouteOptions& route) { route.port = 2; });
  EXPECT_TRUE(fails_naming(prepared, Errc::not_ready, "port", {.value = 2}));
  EXPECT_EQ(prepared.error().text_view(), "ARMED");
}

TEST_F(LocalEndpointTest, NoActivePortNamesTheStateOfTheFirst) {
  states({IBV_PORT_INIT, IBV_PORT_DOWN});
  const auto prepared = prepare();
  EXPECT_TRUE(fails_naming(prepared, Errc::not_ready, "port", {.value = 1}));
  EXPECT_EQ(prepared.error().text_view(), "INIT");
}

TEST_F(LocalEndpointTest, PortThatDoesNotExistIsNamed) {
  knobs.device.phys_port_cnt = 2;
  for (const std::uint8_t port : std::to_array<std::uint8_t>({0, 3}))
    EXPECT_TRUE(fails_naming(prepare([&](RouteOptions& route) { route.port = port; }),
                             Errc::not_found, "port", {.value = port, .limit = 2}));
}

// ---- Addresses

TEST_F(LocalEndpointTest, InfinibandOffersItsGidsAsSuch) {
  add_gid(link_local(9), 4, IBV_GID_TYPE_ROCE_V2);  // The driver's name for it does not matter.
  const Endpoint offered = endpoint();
  ASSERT_EQ(offered.gids.size(), 2u);
  EXPECT_EQ(offered.gids[0].index, 0u);
  EXPECT_EQ(offered.gids[1].index, 4u);
  for (const auto& each : offered.gids) EXPECT_EQ(each.type, GidType::infiniband);
}

TEST_F(LocalEndpointTest, InfinibandNeedsNoGid) {
  knobs.gid_count = 0;
  EXPECT_TRUE(endpoint().gids.empty());
}

TEST_F(LocalEndpointTest, EthernetOffersTheBestFirst) {
  use_ethernet();
  add_gid(link_local(1), 0, IBV_GID_TYPE_IB);  // RoCE v1, by another name.
  add_gid(link_local(2), 1, IBV_GID_TYPE_ROCE_V2);
  add_gid(ipv6(3), 2, IBV_GID_TYPE_ROCE_V2);
  add_gid(ipv4(4), 3, IBV_GID_TYPE_ROCE_V2);
  add_gid(ipv4(5), 4, IBV_GID_TYPE_ROCE_V2);
  const Endpoint offered = endpoint();
  std::vector<std::uint32_t> order;
  for (const auto& each : offered.gids) order.push_back(each.index);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{3, 4, 2, 1, 0}));
  EXPECT_EQ(offered.gids[0].type, GidType::roce_v2);
  EXPECT_EQ(offered.gids[0].gid.bytes, ipv4(4));
  EXPECT_EQ(offered.gids[4].type, GidType::roce_v1);
  EXPECT_EQ(offered.lid, Lid{0});
}

TEST_F(LocalEndpointTest, OffersNoMoreThanFit) {
  use_ethernet();
  for (std::uint8_t i = 0; i < 12; ++i) add_gid(ipv4(i), i, IBV_GID_TYPE_ROCE_V2);
  EXPECT_EQ(endpoint().gids.size(), Endpoint::kMaxGids);
}

TEST_F(LocalEndpointTest, GidThatWasAskedForIsTheOnlyOne) {
  use_ethernet();
  add_gid(ipv4(1), 0, IBV_GID_TYPE_ROCE_V2);
  add_gid(link_local(2), 5, IBV_GID_TYPE_IB);
  const Endpoint offered = endpoint([](RouteOptions& route) { route.gid_index = 5; });
  ASSERT_EQ(offered.gids.size(), 1u);
  EXPECT_EQ(offered.gids[0].index, 5u);
  EXPECT_EQ(offered.gids[0].type, GidType::roce_v1);
}

TEST_F(LocalEndpointTest, GidThatIsNotThereIsNamed) {
  EXPECT_TRUE(fails_naming(prepare([](RouteOptions& route) { route.gid_index = 7; }),
                           Errc::not_found, "gid_index", {.value = 7, .limit = 16}));
}

// The address vector has 8 bits for it, so a higher index would silently become another one.
TEST_F(LocalEndpointTest, GidThatNoAddressVectorCanNameIsNotOffered) {
  knobs.port.gid_tbl_len = 512;
  add_gid(link_local(9), 256, IBV_GID_TYPE_IB);
  EXPECT_EQ(endpoint().gids.size(), 1u);
  EXPECT_TRUE(fails_naming(prepare([](RouteOptions& route) { route.gid_index = 256; }),
                           Errc::not_found, "gid_index", {.value = 256, .limit = 512}));
}

TEST_F(LocalEndpointTest, EthernetWithoutAnAddressIsNotReady) {
  use_ethernet();
  EXPECT_TRUE(fails_naming(prepare(), Errc::not_ready, "GID", {.value = 1}));
}

TEST_F(LocalEndpointTest, AddressOfAnInterfaceThatIsUpIsOffered) {
  use_ethernet();
  const unsigned loopback = if_nametoindex("lo");
  add_gid(ipv4(1), 0, IBV_GID_TYPE_ROCE_V2, loopback);
  add_gid(ipv4(2), 1, IBV_GID_TYPE_ROCE_V2, 0x7fffffff);  // An unknown interface counts as up.
  EXPECT_EQ(endpoint().gids.size(), 2u);
}

// ---- Partitions

TEST_F(LocalEndpointTest, FirstFullMembershipIsTheDefault) {
  knobs.port.pkey_tbl_len = 4;
  knobs.partition_keys = {0x0001, 0x0000, 0x8002, 0xffff};
  const auto& modifications = note_modifications(table);
  EXPECT_EQ(endpoint().partition_key, PartitionKey{0x8002});
  ASSERT_FALSE(modifications.empty());
  EXPECT_EQ(modifications[0].attributes.pkey_index, 2);
}

TEST_F(LocalEndpointTest, LimitedMembershipDoesWhereThereIsNoOther) {
  knobs.port.pkey_tbl_len = 3;
  knobs.partition_keys = {0x0000, 0x0003, 0x0004};
  EXPECT_EQ(endpoint().partition_key, PartitionKey{0x0003});
}

TEST_F(LocalEndpointTest, PartitionZeroDoesNotExist) {
  knobs.port.pkey_tbl_len = 2;
  knobs.partition_keys = {0x8000, 0x8005};
  EXPECT_EQ(endpoint().partition_key, PartitionKey{0x8005});
}

TEST_F(LocalEndpointTest, PartitionThatWasAskedForIsUsed) {
  knobs.port.pkey_tbl_len = 3;
  knobs.partition_keys = {0xffff, 0x8002, 0x0003};
  const auto& modifications = note_modifications(table);
  EXPECT_EQ(endpoint([](RouteOptions& route) {
              route.partition_key = PartitionKey{0x0003};
            }).partition_key,
            PartitionKey{0x0003});
  ASSERT_FALSE(modifications.empty());
  EXPECT_EQ(modifications[0].attributes.pkey_index, 2);
}

TEST_F(LocalEndpointTest, PartitionThatIsNotThereIsNamed) {
  EXPECT_TRUE(
      fails_naming(prepare([](RouteOptions& route) { route.partition_key = PartitionKey{0x8042}; }),
                   Errc::not_found, "partition_key", {.value = 0x8042}));
  knobs.partition_keys = {0};
  EXPECT_TRUE(fails_naming(prepare(), Errc::not_found, "partition_key"));
}

}  // namespace
}  // namespace verbatim::test
