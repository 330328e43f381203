// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: for each device it is said why open_device() takes it or not.
// Method: reports made by hand, as machines with adapters would give them.
#include "device_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace verbatim::cli {
namespace {

using testing::HasSubstr;

DeviceReport device(const std::string& name, PortState state = PortState::active,
                    Transport transport = Transport::hardware) {
  return {.name = name,
          .transport = transport,
          .reliable_connection = true,
          .ports = {{.port = {.number = 1, .state = state}}}};
}

DeviceReport soft0() { return device("soft0", PortState::active, Transport::soft); }

TEST(DeviceReport, TheFirstThatWorksIsTaken) {
  const DevicesReport report{.devices = {device("mlx5_0"), device("mlx5_1"), soft0()},
                             .taken = "mlx5_0"};
  EXPECT_EQ(why(report, report.devices[0]),
            "it is the first with an ACTIVE port and reliable connections");
  EXPECT_EQ(why(report, report.devices[1]), "mlx5_0 comes first");
  EXPECT_EQ(why(report, report.devices[2]), "mlx5_0 comes first");
}

TEST(DeviceReport, SaysWhatIsWrongWithThoseBefore) {
  auto broken = device("broken");
  broken.failure = os_failure("ibv_open_device", EACCES);
  auto iwarp = device("iwarp");
  iwarp.reliable_connection = false;
  iwarp.no_connection_reason = "iWARP needs rdma_cm";
  auto none = device("none");
  none.ports.clear();
  const DevicesReport report{
      .devices = {device("down", PortState::down), broken, iwarp, none, soft0()}, .taken = "soft0"};
  EXPECT_EQ(why(report, report.devices[0]), "no port is ACTIVE: port 1 is DOWN");
  EXPECT_THAT(why(report, report.devices[1]), HasSubstr("permission denied"));
  EXPECT_EQ(why(report, report.devices[2]), "it has no reliable connections: iWARP needs rdma_cm");
  EXPECT_EQ(why(report, report.devices[3]), "it has no ports");
  EXPECT_THAT(why(report, report.devices[4]), HasSubstr("no real device works"));
}

TEST(DeviceReport, TheSoftwareDeviceSaysThatItIsAlone) {
  const DevicesReport report{.devices = {soft0()}, .taken = "soft0"};
  EXPECT_THAT(why(report, report.devices[0]), HasSubstr("there is no real device"));
}

TEST(DeviceReport, ANamedDeviceIsTakenWhateverItsPortsSay) {
  DevicesReport report{.devices = {device("mlx5_0"), device("mlx5_1", PortState::down)},
                       .named = "mlx5_1",
                       .taken = "mlx5_1"};
  EXPECT_EQ(why(report, report.devices[0]), "VERBATIM_DEVICE names mlx5_1");
  EXPECT_EQ(why(report, report.devices[1]), "VERBATIM_DEVICE names it");
  report.asked_for = report.taken;
  EXPECT_EQ(why(report, report.devices[0]), "the command line names mlx5_1");
  EXPECT_EQ(why(report, report.devices[1]), "the command line names it");
}

TEST(DeviceReport, ASecondPortCountsToo) {
  auto two = device("two", PortState::down);
  two.ports.push_back({.port = {.number = 2, .state = PortState::active}});
  const DevicesReport report{.devices = {device("one"), two}, .taken = "one"};
  EXPECT_EQ(why(report, report.devices[1]), "one comes first");
}

TEST(DeviceReport, RatesAreReadable) {
  EXPECT_EQ(format_rate(100000), "100 Gbit/s");
  EXPECT_EQ(format_rate(2500), "2.5 Gbit/s");
  EXPECT_EQ(format_rate(1200000), "1200 Gbit/s");
  EXPECT_EQ(format_rate(0), "unknown rate");
}

}  // namespace
}  // namespace verbatim::cli
