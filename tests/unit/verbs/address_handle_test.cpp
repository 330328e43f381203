// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a destination reaches the device field by field, and one that cannot be expressed is
//       refused instead of becoming another.
// Method: the null provider records what it has to create.
#include "verbatim/verbs/address_handle.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "support/named_error.hpp"
#include "support/null_device.hpp"

namespace verbatim::test {
namespace {

static_assert(!std::is_copy_constructible_v<AddressHandle>);

class AddressHandleTest : public NullDevice {
 protected:
  AddressHandleTest() {
    noted = {};
    table.create_ah = [](ibv_pd* domain, ibv_ah_attr* attributes) {
      noted = *attributes;
      return verbatim_null_provider()->create_ah(domain, attributes);
    };
  }
  ProtectionDomain domain() { return require(open().allocate_domain()); }
  static Gid gid(std::uint8_t last) {
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}};
  }
  static inline ibv_ah_attr noted{};
};

TEST_F(AddressHandleTest, LocalPathIsALid) {
  const auto handle = require(domain().create_address_handle(
      {.remote_lid = Lid{0x1234}, .service_level = 7, .traffic_class = 99}));
  EXPECT_EQ(noted.dlid, 0x1234);
  EXPECT_EQ(noted.sl, 7);
  EXPECT_EQ(noted.port_num, 1);
  EXPECT_EQ(noted.is_global, 0);
  EXPECT_EQ(noted.grh.traffic_class, 0);  // There is no header to put it in.
}

TEST_F(AddressHandleTest, GlobalPathIsAHeader) {
  knobs.device.phys_port_cnt = 2;
  const auto handle = require(domain().create_address_handle({.port = 2,
                                                              .global = true,
                                                              .remote_gid = gid(9),
                                                              .local_gid_index = 5,
                                                              .service_level = 1,
                                                              .traffic_class = 2,
                                                              .flow_label = 3,
                                                              .hop_limit = 4}));
  EXPECT_EQ(noted.is_global, 1);
  EXPECT_EQ(noted.port_num, 2);
  EXPECT_EQ(noted.sl, 1);
  EXPECT_EQ(noted.grh.sgid_index, 5);
  EXPECT_EQ(noted.grh.traffic_class, 2);
  EXPECT_EQ(noted.grh.flow_label, 3u);
  EXPECT_EQ(noted.grh.hop_limit, 4);
  EXPECT_EQ(noted.grh.dgid.raw[11], 0xff);
  EXPECT_EQ(noted.grh.dgid.raw[15], 9);
}

TEST_F(AddressHandleTest, OnEthernetThePathIsGlobal) {
  knobs.port.link_layer = IBV_LINK_LAYER_ETHERNET;
  EXPECT_TRUE(fails_naming(domain().create_address_handle({.remote_lid = Lid{1}}),
                           Errc::invalid_argument, "global", {.value = 0, .limit = 1}));
  EXPECT_TRUE(succeeds(domain().create_address_handle({.global = true, .remote_gid = gid(1)})));
}

TEST_F(AddressHandleTest, PortThatDoesNotExistIsNamed) {
  EXPECT_TRUE(fails_naming(domain().create_address_handle({.port = 0}), Errc::not_found, "port",
                           {.value = 0, .limit = 1}));
  EXPECT_TRUE(fails_naming(domain().create_address_handle({.port = 2}), Errc::not_found, "port",
                           {.value = 2, .limit = 1}));
}

TEST_F(AddressHandleTest, ValuesThatDoNotFitTheirFieldAreNamed) {
  const ProtectionDomain here = domain();
  EXPECT_TRUE(fails_naming(here.create_address_handle({.service_level = 16}),
                           Errc::invalid_argument, "service_level", {.value = 16, .limit = 15}));
  EXPECT_TRUE(fails_naming(here.create_address_handle({.global = true, .flow_label = 1u << 20}),
                           Errc::invalid_argument, "flow_label",
                           {.value = 1u << 20, .limit = 0xfffff}));
  EXPECT_TRUE(fails_naming(here.create_address_handle({.global = true, .local_gid_index = 256}),
                           Errc::invalid_argument, "local_gid_index",
                           {.value = 256, .limit = 255}));
  EXPECT_EQ(noted.port_num, 0);  // The device was not called.
}

TEST_F(AddressHandleTest, ThatTheDeviceRefusesNamesTheDestination) {
  table.create_ah = [](ibv_pd*, ibv_ah_attr*) -> ibv_ah* {
    errno = ETIMEDOUT;
    return nullptr;
  };
  const auto handle = domain().create_address_handle({.global = true, .remote_gid = gid(7)});
  ASSERT_TRUE(fails_with(handle, Errc::timed_out));
  EXPECT_EQ(handle.error().os_error, ETIMEDOUT);
  EXPECT_EQ(handle.error().text_view(), "::ffff:10.0.0.7");
}

// ---- From a queue pair to a peer

TEST_F(AddressHandleTest, OfAPeerTakesThePathBothCanUse) {
  const Bench bench(open());
  auto prepared = require(bench.prepare([](QueuePairOptions& options) {
    options.type = QueuePairType::unreliable_datagram;
    options.route.service_level = 3;
  }));
  const QueuePair queue_pair = require(std::move(prepared).activate());
  Endpoint peer = queue_pair.endpoint();
  peer.lid = Lid{0x55};
  const auto handle = require(queue_pair.address_handle(peer));
  EXPECT_EQ(noted.dlid, 0x55);
  EXPECT_EQ(noted.sl, 3);
  EXPECT_EQ(noted.port_num, 1);
  EXPECT_EQ(noted.is_global, 0);
}

TEST_F(AddressHandleTest, OfAPeerOutOfReachSaysWhy) {
  const Bench bench(open());
  auto prepared = require(bench.prepare(
      [](QueuePairOptions& options) { options.type = QueuePairType::unreliable_datagram; }));
  const QueuePair queue_pair = require(std::move(prepared).activate());
  Endpoint peer = queue_pair.endpoint();
  peer.link_layer = LinkLayer::ethernet;
  EXPECT_TRUE(fails_naming(queue_pair.address_handle(peer), Errc::incompatible, "link_layer",
                           {.value = 1, .limit = 2}));
}

// ---- Ownership

TEST_F(AddressHandleTest, MovesAndIsDestroyedOnce) {
  const ProtectionDomain here = domain();
  const int before = live();
  {
    auto first = require(here.create_address_handle({.remote_lid = Lid{1}}));
    auto second = std::move(first);
    second = require(here.create_address_handle({.remote_lid = Lid{2}}));
    EXPECT_EQ(live(), before + 1);
  }
  EXPECT_EQ(live(), before);
}

TEST_F(AddressHandleTest, KeepsItsDomainAlive) {
  std::optional<ProtectionDomain> here = domain();
  const auto handle = require(here->create_address_handle({.remote_lid = Lid{1}}));
  here.reset();
  EXPECT_EQ(live(), 4);  // List, context, domain and address handle.
}

}  // namespace
}  // namespace verbatim::test
