// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `verbatim devices` lists what is there and says which device a program gets.
// Method: the program itself, with the software device and with a libibverbs of our own making.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "verbatim_program.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kNoLibrary = "VERBATIM_LIBIBVERBS=/nonexistent/libibverbs.so.1";

TEST(Devices, MarksTheSoftwareDevice) {
  const auto outcome = run_verbatim({"devices"}, {kNoLibrary});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, StartsWith("soft0  software device built into Verbatim"));
  EXPECT_THAT(outcome.output, HasSubstr("port 1: ACTIVE, InfiniBand, 100 Gbit/s (nominal), MTU 4"));
  EXPECT_THAT(outcome.output, HasSubstr("GID 0   InfiniBand  fe80::"));
  EXPECT_THAT(outcome.output, HasSubstr("open_device() takes it: "));
  EXPECT_THAT(outcome.output, HasSubstr("Adapters cannot be seen: "));
}

TEST(Devices, NamesTheTypeOfEachGid) {
  const auto outcome = run_verbatim({"devices"}, {kNoLibrary, "VERBATIM_SOFT_LINK=eth"});
  EXPECT_THAT(outcome.output, HasSubstr("RoCEv2"));
  EXPECT_THAT(outcome.output, HasSubstr("Ethernet"));
  EXPECT_THAT(outcome.output, HasSubstr("::ffff:"));
}

TEST(Devices, ARealDeviceComesFirst) {
  const auto report = json_of(run_verbatim({"devices", "--json"}, {kFakeLibrary}));
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["taken"], "null0");
  EXPECT_EQ(report["devices"][0]["name"], "null0");
  EXPECT_EQ(report["devices"][0]["taken"], true);
  EXPECT_EQ(report["devices"][1]["name"], "soft0");
  EXPECT_EQ(report["devices"][1]["built_in"], true);
  EXPECT_EQ(report["devices"][1]["why"], "null0 comes first");
}

TEST(Devices, SaysThatAPortIsDown) {
  const auto outcome = run_verbatim({"devices"}, {kFakeLibrary, "FAKE_PORT_STATE=1"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("port 1: DOWN"));
  EXPECT_THAT(outcome.output, HasSubstr("does not take it: no port is ACTIVE: port 1 is DOWN"));
}

TEST(Devices, JsonHasEveryField) {
  const auto outcome = run_verbatim({"devices", "--json"}, {kNoLibrary});
  EXPECT_EQ(outcome.status, 0);
  const auto report = json_of(outcome);
  ASSERT_EQ(report["devices"].size(), 1u);
  const auto& device = report["devices"][0];
  for (const char* field : {"name", "guid", "transport", "firmware", "why"})
    EXPECT_TRUE(device[field].is_string()) << field;
  EXPECT_EQ(device["transport"], "soft");
  EXPECT_TRUE(device["error"].is_null());
  const auto& port = device["ports"][0];
  EXPECT_EQ(port["state"], "ACTIVE");
  EXPECT_EQ(port["active_mtu_bytes"], 4096);
  EXPECT_EQ(port["rate_mbps"], 100000);
  EXPECT_EQ(port["gids"][0]["type"], "InfiniBand");
}

TEST(Devices, NoneIsStatus1) {
  const std::vector<std::string> none{kNoLibrary, "VERBATIM_SOFT=0"};
  const auto outcome = run_verbatim({"devices"}, none);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("open_device() takes none: "));
  const auto report = json_of(run_verbatim({"devices", "--json"}, none));
  EXPECT_TRUE(report["taken"].is_null());
  EXPECT_TRUE(report["error"].is_string());
}

TEST(Devices, AWrongNameIsStatus1) {
  const auto outcome = run_verbatim({"devices"}, {kNoLibrary, "VERBATIM_DEVICE=mlx5_7\xff"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("VERBATIM_DEVICE names mlx5_7"));
  // A name may be no text; JSON must be.
  const auto as_json = run_verbatim({"devices", "--json"}, {kNoLibrary, "VERBATIM_DEVICE=\xff"});
  EXPECT_EQ(as_json.status, 1);
  EXPECT_TRUE(json_of(as_json).is_object());
}

TEST(Devices, SaysWhatIsWrongWithADeviceThatCannotBeOpened) {
  const auto outcome = run_verbatim({"devices"}, {kNoLibrary, "VERBATIM_SOFT_LINK=token-ring"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("VERBATIM_SOFT_LINK"));
  EXPECT_THAT(outcome.output, HasSubstr("must be ib or eth"));
}

TEST(Devices, RefusesArguments) {
  const auto outcome = run_verbatim({"devices", "soft0"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, IsEmpty());
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
}

}  // namespace
}  // namespace verbatim::test
