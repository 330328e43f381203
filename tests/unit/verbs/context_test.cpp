// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a context reports exactly what its device said, names the port that it cannot use, and
//       lives as long as anything made from it, whatever the order in which handles are dropped.
// Method: devices and ports that the test defines, on the null provider.
// Covers: verbs/life_log.cpp
#include "verbatim/verbs/context.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/fake_root.hpp"
#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "support/seed.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/verbs/address_handle.hpp"
#include "verbatim/verbs/completion_channel.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"

namespace verbatim::test {
namespace {

class ContextTest : public NullDevice {};

TEST_F(ContextTest, TellsWhatTheDeviceIs) {
  knobs.fabric_id = 77;
  const Context context = open();
  EXPECT_EQ(context.name(), "null0");
  EXPECT_EQ(context.transport(), Transport::hardware);
  EXPECT_EQ(context.fabric_id(), 77u);
  EXPECT_FALSE(context.guid().is_reserved());
}

TEST_F(ContextTest, TellsWhatTheDeviceCan) {
  std::snprintf(knobs.device.fw_ver, sizeof knobs.device.fw_ver, "20.43.2566");
  knobs.device.max_qp = 1;
  knobs.device.max_qp_wr = 2;
  knobs.device.max_sge = 3;
  knobs.device.max_sge_rd = 4;
  knobs.device.max_cq = 5;
  knobs.device.max_cqe = 6;
  knobs.device.max_mr = 7;
  knobs.device.max_mr_size = std::uint64_t{8} << 40;
  knobs.device.max_qp_init_rd_atom = 9;
  knobs.device.max_qp_rd_atom = 10;
  knobs.device.max_srq_wr = 11;
  knobs.device.max_srq_sge = 12;
  knobs.device.phys_port_cnt = 2;
  const Context context = open();
  const Capabilities& device = context.capabilities();
  EXPECT_EQ(device.max_queue_pairs, 1u);
  EXPECT_EQ(device.max_requests, 2u);
  EXPECT_EQ(device.max_elements, 3u);
  EXPECT_EQ(device.max_read_elements, 4u);
  EXPECT_EQ(device.max_completion_queues, 5u);
  EXPECT_EQ(device.max_completion_queue_depth, 6u);
  EXPECT_EQ(device.max_memory_regions, 7u);
  EXPECT_EQ(device.max_region_bytes, std::uint64_t{8} << 40);
  EXPECT_EQ(device.max_read_atomic_initiator, 9u);
  EXPECT_EQ(device.max_read_atomic_responder, 10u);
  EXPECT_EQ(device.max_shared_receive_requests, 11u);
  EXPECT_EQ(device.max_shared_receive_elements, 12u);
  EXPECT_EQ(device.port_count, 2u);
  EXPECT_EQ(device.vendor_id, 0x1234u);
  EXPECT_EQ(device.vendor_part_id, 0x5678u);
  EXPECT_EQ(device.firmware_version, "20.43.2566");
}

TEST_F(ContextTest, TellsWhichFeaturesThereAre) {
  EXPECT_TRUE(open().capabilities().atomics);
  EXPECT_TRUE(open().capabilities().shared_receive_queue);
  EXPECT_FALSE(open().capabilities().on_demand_paging);
  EXPECT_FALSE(open().capabilities().memory_windows);
  knobs.device.atomic_cap = IBV_ATOMIC_NONE;
  knobs.device.max_srq = 0;
  knobs.device.device_cap_flags = IBV_DEVICE_MEM_WINDOW;
  EXPECT_FALSE(open().capabilities().atomics);
  EXPECT_FALSE(open().capabilities().shared_receive_queue);
  EXPECT_TRUE(open().capabilities().memory_windows);
}

TEST_F(ContextTest, TellsThatPagingOnDemandIsThere) {
  table.query_device = [](ibv_context* context, ibv_device_attr_ex* to) {
    const int failed = verbatim_null_provider()->query_device(context, to);
    to->odp_caps.general_caps = IBV_ODP_SUPPORT;
    return failed;
  };
  EXPECT_TRUE(open().capabilities().on_demand_paging);
}

TEST_F(ContextTest, NegativeLimitsOfADriverCountAsNone) {
  knobs.device.max_qp_wr = -1;
  EXPECT_EQ(open().capabilities().max_requests, 0u);
}

TEST_F(ContextTest, FirmwareVersionNeedNotBeTerminated) {
  std::memset(knobs.device.fw_ver, 'x', sizeof knobs.device.fw_ver);
  EXPECT_EQ(open().capabilities().firmware_version, std::string(sizeof knobs.device.fw_ver, 'x'));
}

// ---- Devices without connections

TEST_F(ContextTest, OfIwarpIsOpenedAndTellsWhatItLacks) {
  knobs.transport_type = IBV_TRANSPORT_IWARP;
  const Context context = open();
  const Capabilities& device = context.capabilities();
  EXPECT_FALSE(device.reliable_connection);
  EXPECT_FALSE(device.unreliable_connection);
  EXPECT_FALSE(device.unreliable_datagram);
  EXPECT_NE(std::string_view{device.no_connection_reason}.find("rdma_cm"), std::string_view::npos);
  EXPECT_TRUE(succeeds(context.query_port(1)));
}

TEST_F(ContextTest, OfAnUnknownTransportHasDatagramsOnly) {
  for (const auto transport :
       {IBV_TRANSPORT_UNSPECIFIED, IBV_TRANSPORT_UNKNOWN, IBV_TRANSPORT_USNIC}) {
    knobs.transport_type = transport;
    const Context context = open();
    EXPECT_FALSE(context.capabilities().reliable_connection);
    EXPECT_FALSE(context.capabilities().unreliable_connection);
    EXPECT_TRUE(context.capabilities().unreliable_datagram);
    EXPECT_STRNE(context.capabilities().no_connection_reason, "");
    EXPECT_TRUE(succeeds(context.query_port(1)));
  }
}

TEST_F(ContextTest, OfInfinibandHasEverything) {
  const Context context = open();
  EXPECT_TRUE(context.capabilities().reliable_connection);
  EXPECT_TRUE(context.capabilities().unreliable_connection);
  EXPECT_TRUE(context.capabilities().unreliable_datagram);
  EXPECT_STREQ(context.capabilities().no_connection_reason, "");
}

// ---- Ports

class PortsTest : public NullDevice {
 protected:
  /// A device with one port per state.
  Context open_with(std::vector<ibv_port_state> wanted) {
    states = std::move(wanted);
    knobs.device.phys_port_cnt = static_cast<std::uint8_t>(states.size());
    table.query_port = [](ibv_context* context, std::uint8_t port, ibv_port_attr* to) {
      const int failed = verbatim_null_provider()->query_port(context, port, to);
      if (failed == 0) to->state = states[port - 1];
      return failed;
    };
    return open();
  }
  static inline std::vector<ibv_port_state> states;
};

TEST_F(PortsTest, AreReportedAsTheyAre) {
  knobs.port.state = IBV_PORT_ARMED;
  knobs.port.link_layer = IBV_LINK_LAYER_ETHERNET;
  knobs.port.lid = 0x1234;
  knobs.port.active_mtu = IBV_MTU_1024;
  knobs.port.max_mtu = IBV_MTU_4096;
  knobs.port.active_width = 2;
  knobs.port.active_speed = 64;
  knobs.port.max_msg_sz = 1000;
  knobs.port.gid_tbl_len = 5;
  knobs.port.pkey_tbl_len = 6;
  knobs.port.flags = IBV_QPF_GRH_REQUIRED;
  const Port port = require(open().query_port(1));
  EXPECT_EQ(port.number, 1);
  EXPECT_EQ(port.state, PortState::armed);
  EXPECT_EQ(port.link_layer, LinkLayer::ethernet);
  EXPECT_EQ(port.lid, Lid{0x1234});
  EXPECT_EQ(port.active_mtu, MaximumTransferUnit::bytes_1024);
  EXPECT_EQ(port.max_mtu, MaximumTransferUnit::bytes_4096);
  EXPECT_EQ(port.rate_mbps, 200000u);
  EXPECT_EQ(port.max_message_bytes, 1000u);
  EXPECT_EQ(port.gid_count, 5u);
  EXPECT_EQ(port.partition_key_count, 6u);
  EXPECT_TRUE(port.grh_required);
}

TEST_F(PortsTest, WithAnUnknownMtuCountAsTheSmallest) {
  for (const int code : {0, 6, 7}) {
    knobs.port.active_mtu = static_cast<ibv_mtu>(code);
    EXPECT_EQ(require(open().query_port(1)).active_mtu, MaximumTransferUnit::bytes_256);
  }
}

TEST_F(PortsTest, ThatDoNotExistAreNamed) {
  knobs.device.phys_port_cnt = 2;
  const Context context = open();
  for (const std::uint8_t number : std::to_array<std::uint8_t>({0, 3, 255})) {
    const auto port = context.query_port(number);
    EXPECT_TRUE(fails_naming(port, Errc::not_found, "port", {.value = number, .limit = 2}));
    EXPECT_EQ(port.error().text_view(), "null0");
    EXPECT_TRUE(fails_with(context.query_gid_table(number), Errc::not_found));
    EXPECT_TRUE(fails_with(context.query_partition_keys(number), Errc::not_found));
  }
}

TEST_F(PortsTest, ThatCannotBeQueriedKeepTheErrno) {
  table.query_port = [](ibv_context*, std::uint8_t, ibv_port_attr*) { return ENODEV; };
  const auto port = open().query_port(1);
  ASSERT_TRUE(fails_with(port, Errc::device_failed));
  EXPECT_EQ(port.error().os_error, ENODEV);
}

TEST_F(PortsTest, FirstActiveOneIsFound) {
  EXPECT_EQ(require(open_with({IBV_PORT_ACTIVE}).first_active_port()).number, 1);
  EXPECT_EQ(require(open_with({IBV_PORT_DOWN, IBV_PORT_ACTIVE}).first_active_port()).number, 2);
  EXPECT_EQ(require(open_with({IBV_PORT_ACTIVE, IBV_PORT_ACTIVE}).first_active_port()).number, 1);
  EXPECT_EQ(require(open_with({IBV_PORT_ARMED, IBV_PORT_INIT, IBV_PORT_ACTIVE}).first_active_port())
                .number,
            3);
}

TEST_F(PortsTest, NoneActiveNamesTheStateOfTheFirst) {
  struct Row {
    ibv_port_state state;
    std::string_view name;
  };
  for (const auto& [state, name] :
       {Row{IBV_PORT_NOP, "NOP"}, Row{IBV_PORT_DOWN, "DOWN"}, Row{IBV_PORT_INIT, "INIT"},
        Row{IBV_PORT_ARMED, "ARMED"}, Row{IBV_PORT_ACTIVE_DEFER, "ACTIVE_DEFER"}}) {
    const auto port = open_with({state, IBV_PORT_DOWN}).first_active_port();
    EXPECT_TRUE(fails_naming(port, Errc::not_ready, "port", {.value = 1})) << name;
    EXPECT_EQ(port.error().text_view(), name);
  }
}

TEST_F(PortsTest, NoneAtAllIsAnError) {
  EXPECT_TRUE(fails_with(open_with({}).first_active_port(), Errc::not_found));
}

ibv_gid_entry gid_row(std::uint8_t first, std::uint8_t last, std::uint32_t index,
                      std::uint32_t port, std::uint32_t type = IBV_GID_TYPE_ROCE_V2) {
  ibv_gid_entry row{};
  row.gid.raw[0] = first;
  row.gid.raw[15] = last;
  row.gid_index = index;
  row.port_num = port;
  row.gid_type = type;
  row.ndev_ifindex = 40 + index;
  return row;
}

TEST_F(PortsTest, HaveTheirOwnRowsOfTheGidTable) {
  knobs.device.phys_port_cnt = 2;
  knobs.gids = {gid_row(0xfe, 1, 0, 1, IBV_GID_TYPE_IB), gid_row(0xfe, 2, 0, 2),
                gid_row(0, 0, 1, 1), gid_row(0xfe, 3, 2, 1)};
  knobs.gid_count = 4;
  const auto rows = require(open().query_gid_table(1));
  ASSERT_EQ(rows.size(), 2u);  // Neither that of the other port, nor the empty one.
  EXPECT_EQ(rows[0].gid.bytes[15], 1);
  EXPECT_EQ(rows[0].index, 0u);
  EXPECT_EQ(rows[0].type, GidType::infiniband);
  EXPECT_EQ(rows[1].gid.bytes[15], 3);
  EXPECT_EQ(rows[1].index, 2u);
  EXPECT_EQ(rows[1].port, 1);
  EXPECT_EQ(rows[1].type, GidType::roce_v2);
  EXPECT_EQ(rows[1].interface_index, 42u);
}

TEST_F(PortsTest, AGidTableThatCannotBeReadKeepsTheErrno) {
  table.query_gid_table = [](ibv_context*, ibv_gid_entry*, std::size_t) -> ssize_t {
    return -EOPNOTSUPP;
  };
  const auto rows = open().query_gid_table(1);
  ASSERT_TRUE(fails_with(rows, Errc::unsupported));
  EXPECT_EQ(rows.error().os_error, EOPNOTSUPP);
}

TEST_F(PortsTest, HavePartitionKeysInHostOrder) {
  knobs.port.pkey_tbl_len = 3;
  knobs.partition_keys = {0xffff, 0x8001, 0x0002};
  EXPECT_EQ(require(open().query_partition_keys(1)),
            (std::vector{PartitionKey{0xffff}, PartitionKey{0x8001}, PartitionKey{0x0002}}));
}

TEST_F(PortsTest, PartitionKeysThatCannotBeReadKeepTheErrno) {
  table.query_pkey = [](ibv_context*, std::uint8_t, int, __be16*) {
    errno = EPERM;
    return -1;
  };
  const auto keys = open().query_partition_keys(1);
  ASSERT_TRUE(fails_with(keys, Errc::permission_denied));
  EXPECT_EQ(keys.error().os_error, EPERM);
}

// ---- Where the device is attached

class NumaNodeTest : public NullDevice {
 protected:
  NumaNodeTest() {
    path = root.path();
    table.get_device_list = [](int* count) {
      ibv_device** const list = verbatim_null_provider()->get_device_list(count);
      std::snprintf(list[0]->ibdev_path, sizeof list[0]->ibdev_path, "%s", path.c_str());
      return list;
    };
  }
  FakeRoot root;
  static inline std::string path;
};

TEST_F(NumaNodeTest, ComesFromTheSystem) {
  root.write("device/numa_node", "1\n");
  EXPECT_EQ(require(open().numa_node()), 1);
}

TEST_F(NumaNodeTest, IsMissingWhereTheSystemNamesNone) {
  const auto without_file = open().numa_node();
  ASSERT_TRUE(fails_with(without_file, Errc::not_found));
  EXPECT_EQ(without_file.error().text_view(), "null0");
  for (const char* const content : {"-1\n", "", "none\n"}) {
    root.write("device/numa_node", content);
    EXPECT_TRUE(fails_with(open().numa_node(), Errc::not_found)) << content;
  }
}

// ---- Ownership

TEST_F(ContextTest, LivesAsLongAsAnythingMadeFromIt) {
  std::optional<Context> context = open();
  std::optional<ProtectionDomain> domain = require(context->allocate_domain());
  std::optional<CompletionQueue> queue = make_queue(*context);
  std::optional<QueuePair> queue_pair =
      loop_back(require(QueuePair::prepare(options_for(*domain, *queue))));
  std::optional<Buffer> buffer = require(domain->allocate(10));
  const int all = live();
  context.reset();
  domain.reset();
  queue.reset();
  EXPECT_EQ(live(), all);
  EXPECT_EQ(require(queue_pair->query_state()), QueuePairState::ready_to_send);
  EXPECT_EQ(buffer->bytes().size(), 10u);
  queue_pair.reset();
  EXPECT_EQ(live(), 5);  // List, context, domain, memory and its registration.
  buffer.reset();
  EXPECT_EQ(live(), 0);
}

// Handles of every kind, dropped in random order. The device refuses to destroy what is in use, so
// a wrong order would show as a leak.
TEST_F(ContextTest, HandlesMayBeDroppedInAnyOrder) {
  const std::uint64_t first_seed = seed();
  SCOPED_TRACE(replay(first_seed));
  std::mt19937_64 random{first_seed};
  for (int round = 0; round < 50; ++round) {
    // Each holds one handle.
    std::vector<std::shared_ptr<void>> handles;
    const auto keep = [&]<class T>(T handle) -> T& {
      auto kept = std::make_shared<T>(std::move(handle));
      handles.push_back(kept);
      return *kept;
    };
    const Context& context = keep(open());
    const ProtectionDomain& domain = keep(require(context.allocate_domain()));
    const CompletionChannel& channel = keep(require(context.create_completion_channel()));
    const CompletionQueue& queue =
        keep(require(context.create_completion_queue({.depth = 1024, .channel = channel})));
    const SharedReceiveQueue& shared =
        keep(require(domain.create_shared_receive_queue({.max_requests = 4})));
    keep(require(domain.allocate(1)));
    keep(require(domain.allocate_shared(1, Access::remote_read)));
    keep(require(domain.create_address_handle({.remote_lid = Lid{3}})));
    keep(loop_back(require(QueuePair::prepare(options_for(domain, queue)))));
    {
      QueuePairOptions options = options_for(domain, queue);  // It holds handles, too.
      options.shared_receive_queue = shared;
      keep(require(QueuePair::prepare(options)));
    }
    std::ranges::shuffle(handles, random);
    while (!handles.empty()) handles.pop_back();
    ASSERT_EQ(live(), 0) << "in round " << round;
  }
}

std::string logged_errors;

TEST_F(ContextTest, WhatCannotBeTornDownIsLogged) {
  table.dealloc_pd = [](ibv_pd* domain) {
    verbatim_null_provider()->dealloc_pd(domain);
    return EBUSY;
  };
  table.close_device = [](ibv_context* context) {
    verbatim_null_provider()->close_device(context);
    errno = EIO;
    return -1;
  };
  logged_errors.clear();
  const LogSink before = set_log_sink([](LogLevel level, std::string_view line) noexcept {
    if (level == LogLevel::error) (logged_errors += line) += '\n';
  });
  {
    const auto domain = require(open().allocate_domain());
  }
  set_log_sink(before);
  EXPECT_NE(logged_errors.find("ibv_dealloc_pd: busy"), std::string::npos) << logged_errors;
  EXPECT_NE(logged_errors.find("ibv_close_device: driver"), std::string::npos) << logged_errors;
}

TEST_F(ContextTest, LifeOfEveryObjectIsLogged) {
  static std::string lines;
  lines.clear();
  const LogSink before = set_log_sink([](LogLevel level, std::string_view line) noexcept {
    if (level == LogLevel::debug) (lines += line) += '\n';
  });
  std::string number;
  {
    const Bench bench(open());
    const auto channel = require(bench.context.create_completion_channel());
    const auto shared = require(bench.domain.create_shared_receive_queue({.max_requests = 4}));
    const auto handle = require(bench.domain.create_address_handle({.remote_lid = Lid{3}}));
    std::array<std::byte, 100> memory{};
    const auto region = require(bench.domain.register_local(memory));
    const auto prepared = require(bench.prepare());
    char text[16];
    std::snprintf(text, sizeof text, "0x%06x", std::to_underlying(prepared.number()));
    number = text;
  }
  set_log_sink(before);
  for (const std::string& object :
       {"queue pair " + number + " on null0", std::string{"completion queue "},
        std::string{"completion channel "}, std::string{"shared receive queue "},
        std::string{"address handle "}, std::string{"protection domain "},
        std::string{"memory region "}}) {
    EXPECT_TRUE(lines.contains("created " + object)) << object << '\n' << lines;
    EXPECT_TRUE(lines.contains("destroyed " + object)) << object << '\n' << lines;
  }
  EXPECT_TRUE(lines.starts_with("opened device null0\n")) << lines;
  EXPECT_TRUE(lines.ends_with("closed device null0\n")) << lines;
  EXPECT_TRUE(lines.contains(" on null0 (100 bytes)\n")) << lines;
}

TEST_F(ContextTest, ObjectsThatTheDeviceRefusesKeepTheErrno) {
  table.alloc_pd = [](ibv_context*) -> ibv_pd* {
    errno = ENOMEM;
    return nullptr;
  };
  const auto domain = open().allocate_domain();
  ASSERT_TRUE(fails_with(domain, Errc::out_of_resources));
  EXPECT_EQ(domain.error().os_error, ENOMEM);
  EXPECT_STREQ(domain.error().operation, "ibv_alloc_pd");
}

}  // namespace
}  // namespace verbatim::test
