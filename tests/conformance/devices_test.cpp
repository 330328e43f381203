// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the device can be found, opened and queried, and its answers make sense.
// Method: compare independent sources (the list, the open device, sysfs) with each other.
// Covers: soft/device.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {
namespace {

TEST(Device, IsInTheList) {
  const auto devices = require(list_devices());
  EXPECT_EQ(std::ranges::count(devices, settings().device, &Device::name), 1);
}

TEST(Device, OpensByNameAndIsTheOneListed) {
  const auto devices = require(list_devices());
  const auto listed = std::ranges::find(devices, settings().device, &Device::name);
  ASSERT_NE(listed, devices.end());
  const Context context = require(open_device(settings().device));
  EXPECT_EQ(context.name(), listed->name());
  EXPECT_EQ(context.guid(), listed->guid());
  EXPECT_EQ(context.transport(), listed->transport());
}

TEST(Device, OpensMoreThanOnce) {
  const Context first = open_context();
  const Context second = open_context();
  EXPECT_EQ(first.guid(), second.guid());
}

TEST(Device, OutlivesTheListItCameFrom) {
  const auto context = [] {
    const auto devices = require(list_devices());
    return require(std::ranges::find(devices, settings().device, &Device::name)->open());
  }();
  EXPECT_EQ(context.name(), settings().device);
}

TEST(Device, GuidIsPrintedAsSysfsPrintsIt) {
  std::ifstream file{"/sys/class/infiniband/" + settings().device + "/node_guid"};
  std::string text;
  if (!(file >> text)) GTEST_SKIP() << "the device is not in sysfs";
  EXPECT_EQ(to_string(open_context().guid()), text);
}

TEST(Device, UnknownNameIsNotFoundAndNamed) {
  const auto result = open_device("no-such-device");
  ASSERT_TRUE(fails_with(result, Errc::not_found));
  EXPECT_EQ(result.error().text_view(), "no-such-device");
}

TEST(Device, OtherTransportIsRefused) {
  const Transport other =
      open_context().transport() == Transport::soft ? Transport::hardware : Transport::soft;
  EXPECT_FALSE(open_device({.name = settings().device, .require = other}));
}

TEST(Capabilities, ArePlausible) {
  const Capabilities& device = capabilities();
  EXPECT_TRUE(device.reliable_connection) << device.no_connection_reason;
  EXPECT_GE(device.port_count, 1);
  EXPECT_GE(device.max_queue_pairs, 2u);
  EXPECT_GE(device.max_requests, 16u);
  EXPECT_GE(device.max_elements, 1u);
  EXPECT_GE(device.max_completion_queues, 2u);
  EXPECT_GE(device.max_completion_queue_depth, device.max_requests < 64 ? device.max_requests : 64);
  EXPECT_GE(device.max_memory_regions, 2u);
  EXPECT_GE(device.max_region_bytes, 1u << 20);
  if (device.atomics) {
    EXPECT_GE(device.max_read_atomic_initiator, 1u);
    EXPECT_GE(device.max_read_atomic_responder, 1u);
  }
  if (device.shared_receive_queue) {
    EXPECT_GE(device.max_shared_receive_requests, 1u);
    EXPECT_GE(device.max_shared_receive_elements, 1u);
  }
}

TEST(Port, OneIsActiveAndPlausible) {
  const Context context = open_context();
  const Port port = require(context.first_active_port());
  EXPECT_EQ(port.state, PortState::active);
  EXPECT_GE(port.number, 1);
  EXPECT_LE(port.number, context.capabilities().port_count);
  EXPECT_LE(byte_count(port.active_mtu), byte_count(port.max_mtu));
  EXPECT_GE(port.max_message_bytes, byte_count(port.active_mtu));
  EXPECT_GE(port.partition_key_count, 1);
  EXPECT_NE(port.link_layer, LinkLayer::unspecified);
  EXPECT_EQ(require(context.query_port(port.number)).number, port.number);
}

TEST(Port, NumbersOutsideTheDeviceAreNamed) {
  const Context context = open_context();
  const auto beyond = static_cast<std::uint8_t>(context.capabilities().port_count + 1);
  for (const std::uint8_t number : {std::uint8_t{0}, beyond}) {
    const auto result = context.query_port(number);
    ASSERT_TRUE(fails_with(result, Errc::not_found));
    EXPECT_EQ(result.error().value, number);
    EXPECT_STREQ(result.error().field, "port");
    EXPECT_TRUE(fails_with(context.query_gid_table(number), Errc::not_found));
    EXPECT_TRUE(fails_with(context.query_partition_keys(number), Errc::not_found));
  }
}

TEST(Port, GidTableHasDistinctRowsThatAreInUse) {
  const Context context = open_context();
  const Port port = require(context.first_active_port());
  const auto rows = require(context.query_gid_table(port.number));
  EXPECT_FALSE(rows.empty());
  std::set<std::uint32_t> indexes;
  for (const GidEntry& row : rows) {
    EXPECT_LT(row.index, port.gid_count);
    EXPECT_EQ(row.port, port.number);
    EXPECT_FALSE(row.gid.is_zero());
    EXPECT_EQ(row.type == GidType::infiniband, port.link_layer == LinkLayer::infiniband);
    EXPECT_TRUE(indexes.insert(row.index).second) << "row " << row.index << " comes twice";
  }
}

TEST(Port, HasAPartitionThatItIsAFullMemberOf) {
  const Context context = open_context();
  const Port port = require(context.first_active_port());
  const auto keys = require(context.query_partition_keys(port.number));
  EXPECT_EQ(keys.size(), port.partition_key_count);
  EXPECT_TRUE(std::ranges::any_of(
      keys, [](PartitionKey key) { return (std::to_underlying(key) & 0x8000u) != 0; }));
}

TEST(Device, NumaNodeIsANumberOrNotFound) {
  const auto node = open_context().numa_node();
  if (node) {
    EXPECT_GE(*node, 0);
  } else {
    EXPECT_EQ(node.error(), Errc::not_found);
  }
}

}  // namespace
}  // namespace verbatim::test
