// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: devices are found in order, with the names and numbers that all tools use, and a device
//       that cannot be opened says why.
// Method: the null provider, with verbs replaced. Opening by name goes through libibverbs: see
//         provider/system_test.cpp.
#include "verbatim/verbs/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbs/context.hpp"

namespace verbatim::test {
namespace {

constexpr std::uint64_t kGuid = 0x0c42'a103'0012'3456;

TEST(Guid, PrintsAsTheToolsDo) {
  EXPECT_EQ(to_string(Guid::from_value(kGuid)), "0c42:a103:0012:3456");
  EXPECT_EQ(to_string(Guid{}), "0000:0000:0000:0000");
}

TEST(Guid, KeepsItsBytesInPrintedOrder) {
  const std::array<std::uint8_t, 8> bytes{0x0c, 0x42, 0xa1, 0x03, 0x00, 0x12, 0x34, 0x56};
  EXPECT_EQ(Guid::from_value(kGuid).bytes, bytes);
  EXPECT_EQ(Guid{bytes}.value(), kGuid);
}

TEST(Guid, StartsWithTheManufacturer) {
  EXPECT_EQ(Guid::from_value(kGuid).oui(), 0x0c42a1u);
  EXPECT_EQ(Guid::from_value(0xff).oui(), 0u);
}

TEST(Guid, IsReservedWhenZero) {
  EXPECT_TRUE(Guid{}.is_reserved());
  EXPECT_FALSE(Guid::from_value(1).is_reserved());
  EXPECT_FALSE(Guid::from_value(std::uint64_t{1} << 63).is_reserved());
}

TEST(Guid, IsAKeyOfUnorderedContainers) {
  std::unordered_map<Guid, int> map;
  for (int i = 0; i < 100; ++i) map[Guid::from_value(kGuid + static_cast<unsigned>(i))] = i;
  EXPECT_EQ(map.size(), 100u);
  EXPECT_EQ(map.at(Guid::from_value(kGuid + 7)), 7);
  EXPECT_NE(std::hash<Guid>{}(Guid::from_value(1)), std::hash<Guid>{}(Guid::from_value(2)));
}

TEST(Guid, ComparesByValue) {
  EXPECT_EQ(Guid::from_value(kGuid), Guid::from_value(kGuid));
  EXPECT_NE(Guid::from_value(kGuid), Guid::from_value(kGuid + 1));
}

class DeviceTest : public NullDevice {};

// The verb returns the number in network order. Taking it for a host number would reverse it.
TEST_F(DeviceTest, GuidIsNotTurnedAround) {
  table.get_device_guid = [](ibv_device*) -> __be64 { return std::byteswap(kGuid); };
  const auto devices = require(list_devices(table));
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(to_string(devices[0].guid()), "0c42:a103:0012:3456");
  EXPECT_EQ(devices[0].guid().oui(), 0x0c42a1u);
  EXPECT_EQ(require(devices[0].open()).guid(), devices[0].guid());
}

TEST_F(DeviceTest, AreListedInTheProvidersOrder) {
  knobs.device_count = 3;
  std::vector<std::string> names;
  for (const Device& device : require(list_devices(table))) names.emplace_back(device.name());
  EXPECT_EQ(names, (std::vector<std::string>{"null0", "null1", "null2"}));
}

TEST_F(DeviceTest, OpenTheOneTheyAre) {
  knobs.device_count = 3;
  const auto devices = require(list_devices(table));
  for (const Device& device : devices) {
    const Context context = require(device.open());
    EXPECT_EQ(context.name(), device.name());
    EXPECT_EQ(context.guid(), device.guid());
  }
  EXPECT_NE(devices[0].guid(), devices[2].guid());
}

TEST_F(DeviceTest, MayBeNone) {
  knobs.device_count = 0;
  EXPECT_TRUE(require(list_devices(table)).empty());
}

TEST_F(DeviceTest, AreNoneWhereTheKernelHasNoRdma) {
  table.get_device_list = [](int*) -> ibv_device** { return nullptr; };  // errno untouched
  EXPECT_TRUE(require(list_devices(table)).empty());
  table.get_device_list = [](int*) -> ibv_device** {
    errno = ENOSYS;
    return nullptr;
  };
  EXPECT_TRUE(require(list_devices(table)).empty());
}

TEST_F(DeviceTest, CannotBeListedIsAnError) {
  table.get_device_list = [](int*) -> ibv_device** {
    errno = EPERM;
    return nullptr;
  };
  const auto devices = list_devices(table);
  ASSERT_TRUE(fails_with(devices, Errc::permission_denied));
  EXPECT_EQ(devices.error().os_error, EPERM);
  EXPECT_STREQ(devices.error().operation, "ibv_get_device_list");
}

// errno may hold anything from before.
TEST_F(DeviceTest, AnOldErrnoIsNotTheListings) {
  table.get_device_list = [](int*) -> ibv_device** { return nullptr; };
  errno = EIO;
  EXPECT_TRUE(succeeds(list_devices(table)));
}

TEST_F(DeviceTest, KeepTheirListAliveAndAContextKeepsItsDevice) {
  std::optional<Context> context;
  {
    std::optional<Device> kept;
    {
      const auto devices = require(list_devices(table));
      kept = devices[0];
    }
    EXPECT_EQ(kept->name(), "null0");
    EXPECT_EQ(live(), 1);  // The list.
    context = require(kept->open());
  }
  EXPECT_EQ(live(), 2);  // The list and the context.
  EXPECT_EQ(context->name(), "null0");
  EXPECT_EQ(context->device().name(), "null0");
  EXPECT_EQ(context->device().guid(), context->guid());
  EXPECT_EQ(require(context->device().open()).name(), "null0");
  EXPECT_TRUE(succeeds(context->query_port(1)));
}

TEST_F(DeviceTest, SayWhatMovesTheBytes) {
  for (const Transport transport :
       {Transport::hardware, Transport::kernel_software, Transport::soft}) {
    knobs.transport = transport;
    const auto devices = require(list_devices(table));
    EXPECT_EQ(devices[0].transport(), transport);
    EXPECT_EQ(require(devices[0].open()).transport(), transport);
  }
}

TEST_F(DeviceTest, ThatCannotBeOpenedIsNamed) {
  table.open_device = [](ibv_device*) -> ibv_context* {
    errno = EACCES;
    return nullptr;
  };
  const auto context = require(list_devices(table))[0].open();
  ASSERT_TRUE(fails_with(context, Errc::permission_denied));
  EXPECT_EQ(context.error().os_error, EACCES);
  EXPECT_EQ(context.error().text_view(), "null0");
}

TEST_F(DeviceTest, ThatCannotBeQueriedIsClosedAgain) {
  table.query_device = [](ibv_context*, ibv_device_attr_ex*) { return EIO; };
  const auto context = require(list_devices(table))[0].open();
  ASSERT_TRUE(fails_with(context, Errc::driver));
  EXPECT_EQ(context.error().os_error, EIO);
  EXPECT_STREQ(context.error().operation, "ibv_query_device");
}

TEST_F(DeviceTest, CanBeOpenedTwice) {
  const Context first = open();
  const Context second = open();
  EXPECT_EQ(live(), 4);  // Each with the list it was found in.
}

}  // namespace
}  // namespace verbatim::test
