// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each check of devices, ports and addresses names what is wrong and what changes it.
// Method: reports made by hand, as machines with adapters would give them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "checks.hpp"
#include "finding_matcher.hpp"
#include "support/fake_root.hpp"

namespace verbatim::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

GidReport gid(GidType type, std::uint8_t first_byte, const char* interface = "eth7") {
  GidReport report{.entry = {.type = type}, .interface = interface};
  report.entry.gid.bytes = {first_byte, 0x80};  // fe80:: is link-local.
  return report;
}

class DeviceChecksTest : public testing::Test {
 protected:
  DeviceChecksTest() {
    snapshot.system.root = root.path();
    adapter = {.name = "mlx5_0", .reliable_connection = true, .ports = {port()}};
    soft = {.name = "soft0",
            .transport = Transport::soft,
            .reliable_connection = true,
            .ports = {{.port = {.number = 1,
                                .state = PortState::active,
                                .link_layer = LinkLayer::infiniband,
                                .lid = Lid{1},
                                .active_mtu = MaximumTransferUnit::bytes_4096,
                                .max_mtu = MaximumTransferUnit::bytes_4096}}}};
  }
  static PortReport port() {
    return {.port = {.number = 1,
                     .state = PortState::active,
                     .link_layer = LinkLayer::ethernet,
                     .active_mtu = MaximumTransferUnit::bytes_4096,
                     .max_mtu = MaximumTransferUnit::bytes_4096,
                     .rate_mbps = 100000},
            .gids = {gid(GidType::roce_v2, 0x20)}};
  }
  [[nodiscard]] Port& adapter_port() { return adapter.ports[0].port; }
  /// What open_device() takes of them.
  const Snapshot& with(const std::string& taken) {
    snapshot.devices.devices = {adapter, soft};
    snapshot.devices.taken = taken;
    return snapshot;
  }

  test::FakeRoot root;
  Snapshot snapshot;
  DeviceReport adapter;
  DeviceReport soft;
};

TEST_F(DeviceChecksTest, SaysWhatIsTakenAndWhy) {
  EXPECT_THAT(check_choice(with("mlx5_0")),
              ElementsAre(found(Severity::ok, "mlx5_0: it is the first", "")));
}

TEST_F(DeviceChecksTest, AWrongNameIsNamed) {
  snapshot.devices.named = "mlx5_9";
  snapshot.devices.refusal = Error{.code = Errc::not_found, .operation = "open_device"};
  const auto findings = check_choice(with(""));
  EXPECT_THAT(findings, ElementsAre(found(Severity::error, "VERBATIM_DEVICE=mlx5_9",
                                          "export VERBATIM_DEVICE=mlx5_0")));
  EXPECT_THAT(findings[0].why, HasSubstr("there is mlx5_0, soft0"));
}

TEST_F(DeviceChecksTest, NoDeviceAtAllIsAnError) {
  snapshot.devices.refusal = Error{.code = Errc::not_found, .operation = "open_device"};
  EXPECT_THAT(
      check_choice(snapshot),
      ElementsAre(found(Severity::error, "none: open_device: not found", "unset VERBATIM_SOFT")));
}

TEST_F(DeviceChecksTest, ARefusalHasItsCauses) {
  soft.failure = Error{.code = Errc::permission_denied, .operation = "soft directory"};
  snapshot.devices.refusal = soft.failure;
  const auto findings = check_choice(with(""));
  EXPECT_THAT(findings, ElementsAre(found(Severity::error, "permission denied", "")));
  EXPECT_THAT(findings[0].why, HasSubstr("closed to others (mode 0700)"));
  EXPECT_THAT(check_open(snapshot), IsEmpty());  // It was said.
}

TEST_F(DeviceChecksTest, ADeviceThatCannotBeOpenedIsNamed) {
  EXPECT_THAT(check_open(with("mlx5_0")), IsEmpty());
  adapter.failure = os_failure("ibv_open_device", EACCES);
  const auto findings = check_open(with("soft0"));
  EXPECT_THAT(findings, ElementsAre(found(Severity::error, "permission denied", "")));
  EXPECT_EQ(findings[0].id, "open.mlx5_0");
  EXPECT_THAT(findings[0].why, HasSubstr("/dev/infiniband"));
}

TEST_F(DeviceChecksTest, APortThatIsDownIsAnErrorIfTheSoftwareDeviceTakesItsPlace) {
  adapter_port().state = PortState::down;
  const auto findings = check_ports(with("soft0"));
  EXPECT_THAT(findings, ElementsAre(found(Severity::error, "DOWN, Ethernet", "ip link set eth7 up"),
                                    found(Severity::ok, "ACTIVE", "")));
  EXPECT_EQ(findings[0].id, "port.mlx5_0.1");
}

TEST_F(DeviceChecksTest, APortThatIsDownIsAnErrorIfItsDeviceIsNamed) {
  adapter_port().state = PortState::down;
  snapshot.devices.named = "mlx5_0";
  EXPECT_EQ(check_ports(with("mlx5_0"))[0].severity, Severity::error);
  snapshot.devices.named = "soft0";  // The user wants it so.
  EXPECT_EQ(check_ports(with("soft0"))[0].severity, Severity::warning);
}

TEST_F(DeviceChecksTest, ASecondPortThatIsDownIsNotedOnly) {
  adapter.ports.push_back(port());
  adapter.ports[1].port.number = 2;
  adapter.ports[1].port.state = PortState::down;
  EXPECT_EQ(check_ports(with("mlx5_0"))[1].severity, Severity::note);
}

TEST_F(DeviceChecksTest, ThePortsInterfaceIsFoundWithoutAddresses) {
  adapter_port().state = PortState::down;
  adapter.ports[0].gids.clear();
  EXPECT_THAT(check_ports(with("soft0"))[0].fix, HasSubstr("ip link set INTERFACE up"));
  root.make_directory("sys/class/infiniband/mlx5_0/device/net/eth1");
  EXPECT_THAT(check_ports(snapshot)[0].fix, HasSubstr("ip link set eth1 up"));
  root.write("sys/class/infiniband/mlx5_0/parent", "eth2\n");
  EXPECT_THAT(check_ports(snapshot)[0].fix, HasSubstr("ip link set eth2 up"));
  root.write("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth3\n");
  EXPECT_THAT(check_ports(snapshot)[0].fix, HasSubstr("ip link set eth3 up"));
}

TEST_F(DeviceChecksTest, AnInterfaceThatIsDownIsTheCause) {
  adapter_port().state = PortState::down;
  root.write("sys/class/net/eth7/flags", "0x1002\n");
  EXPECT_THAT(check_ports(with("soft0"))[0].why, HasSubstr("its network interface eth7 is down"));
  EXPECT_THAT(check_ports(snapshot)[0].fix, HasSubstr("ip link set eth7 up"));
  root.write("sys/class/net/eth7/flags", "0x1003\n");
  EXPECT_THAT(check_ports(snapshot)[0].why, HasSubstr("eth7 is up, so there is no cable"));
  EXPECT_EQ(check_ports(snapshot)[0].fix, "");
  for (const char* odd : {"", "0x", "up", "1003"}) {
    root.write("sys/class/net/eth7/flags", odd);
    EXPECT_THAT(check_ports(snapshot)[0].why, HasSubstr("or the network interface is down")) << odd;
  }
}

TEST_F(DeviceChecksTest, APortWithoutSubnetManagerIsNamed) {
  adapter_port().state = PortState::initializing;
  adapter_port().link_layer = LinkLayer::infiniband;
  EXPECT_THAT(check_ports(with("soft0"))[0], found(Severity::error, "INIT", "opensm"));
  adapter_port().state = PortState::down;
  EXPECT_THAT(check_ports(with("soft0"))[0], found(Severity::error, "DOWN", "ibportstate"));
}

TEST_F(DeviceChecksTest, APortNeedsAnAddress) {
  EXPECT_THAT(check_gids(with("mlx5_0"))[0], found(Severity::ok, "1 in the GID table", ""));
  adapter.ports[0].gids = {gid(GidType::roce_v2, 0xfe), gid(GidType::roce_v1, 0x20)};
  EXPECT_THAT(check_gids(with("mlx5_0"))[0],
              found(Severity::warning, "none of them RoCEv2", "ip address add"));
  adapter.ports[0].gids.clear();
  EXPECT_THAT(check_gids(with("mlx5_0"))[0],
              found(Severity::error, "0 in the GID table", "ip address add"));
}

TEST_F(DeviceChecksTest, AnInfiniBandPortNeedsALid) {
  adapter_port().link_layer = LinkLayer::infiniband;
  EXPECT_THAT(check_gids(with("mlx5_0"))[0], found(Severity::warning, "no LID", "opensm"));
  adapter_port().lid = Lid{5};
  EXPECT_THAT(check_gids(with("mlx5_0"))[0], found(Severity::ok, "1", ""));
}

TEST_F(DeviceChecksTest, ASmallMtuIsNoted) {
  EXPECT_THAT(check_mtu(with("mlx5_0"))[0], found(Severity::ok, "4096", ""));
  adapter_port().active_mtu = MaximumTransferUnit::bytes_1024;
  EXPECT_THAT(check_mtu(with("mlx5_0"))[0],
              found(Severity::note, "1024 of 4096", "ip link set eth7 mtu 4200"));
}

TEST_F(DeviceChecksTest, PortsThatAreNotActiveHaveNoFurtherFindings) {
  adapter_port().state = PortState::down;
  EXPECT_EQ(check_gids(with("soft0")).size(), 1u);
  EXPECT_EQ(check_mtu(with("soft0")).size(), 1u);
}

}  // namespace
}  // namespace verbatim::cli
