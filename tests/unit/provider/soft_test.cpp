// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the software device is found if nothing else is, can be hidden, and never hides itself.
// Method: fresh processes without libibverbs, and the environment that a user would set.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/fresh_process.hpp"
#include "verbatim/provider/soft.hpp"
#include "verbatim/verbs/context.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {
namespace {

constexpr const char* kNoLibrary = "/nonexistent/libibverbs.so.1";

TEST(SoftProvider, IsTheDeviceOfAMachineWithoutRdma) {
  in_fresh_process(kNoLibrary, [] {
    unsetenv("VERBATIM_SOFT");
    const auto devices = list_devices();
    ASSERT_TRUE(devices.has_value());
    ASSERT_EQ(devices->size(), 1u);
    EXPECT_EQ(devices->front().name(), "soft0");
    EXPECT_EQ(devices->front().transport(), Transport::soft);
    const auto context = open_device();
    ASSERT_TRUE(context.has_value()) << to_string(context.error());
    EXPECT_EQ(context->name(), "soft0");
    EXPECT_EQ(context->transport(), Transport::soft);
    EXPECT_NE(context->fabric_id(), 0u);
  });
}

TEST(SoftProvider, IsHiddenOnRequest) {
  in_fresh_process(kNoLibrary, [] {
    setenv("VERBATIM_SOFT", "0", 1);
    EXPECT_TRUE(list_devices().value().empty());
    EXPECT_EQ(open_device("soft0").error(), Errc::not_found);
  });
}

TEST(SoftProvider, IsRefusedWhereHardwareIsRequired) {
  in_fresh_process(kNoLibrary, [] {
    unsetenv("VERBATIM_SOFT");
    EXPECT_EQ(open_device({.require = Transport::hardware}).error(), Errc::not_found);
    const auto named = open_device({.name = "soft0", .require = Transport::hardware});
    ASSERT_FALSE(named.has_value());
    EXPECT_EQ(named.error(), Errc::unsupported);
    EXPECT_EQ(named.error().text_view(), "soft0");
  });
}

TEST(SoftProvider, HasAsManyDevicesAsAsked) {
  in_fresh_process(kNoLibrary, [] {
    unsetenv("VERBATIM_SOFT");
    setenv("VERBATIM_SOFT_DEVICES", "3", 1);
    const auto devices = list_devices(soft_provider()).value();
    ASSERT_EQ(devices.size(), 3u);
    EXPECT_EQ(devices[2].name(), "soft2");
    EXPECT_NE(devices[0].guid(), devices[2].guid());
  });
}

TEST(SoftProvider, HasEitherLinkLayer) {
  for (const auto* const link : {"ib", "eth"}) {
    in_fresh_process(kNoLibrary, [link] {
      unsetenv("VERBATIM_SOFT");
      setenv("VERBATIM_SOFT_LINK", link, 1);
      const auto port = open_device("soft0").value().query_port(1).value();
      const bool ethernet = std::string{link} == "eth";
      EXPECT_EQ(port.link_layer, ethernet ? LinkLayer::ethernet : LinkLayer::infiniband);
      EXPECT_EQ(port.lid == Lid{}, ethernet);
    });
  }
}

TEST(SoftProvider, NamesTheFaultThatItDoesNotUnderstand) {
  // Read when a process starts, so it is set before the fresh one starts. In this process it has no
  // effect any more.
  setenv("VERBATIM_SOFT_FAULTS", "drop@3;nonsense@x", 1);
  in_fresh_process(kNoLibrary, [] {
    unsetenv("VERBATIM_SOFT");
    const auto context = open_device("soft0");
    ASSERT_FALSE(context.has_value());
    EXPECT_EQ(context.error(), Errc::malformed);
    EXPECT_EQ(context.error().text_view(), "nonsense@x");
  });
  unsetenv("VERBATIM_SOFT_FAULTS");
}

TEST(SoftProvider, NamesTheDirectoryThatItRefuses) {
  in_fresh_process(kNoLibrary, [] {
    unsetenv("VERBATIM_SOFT");
    setenv("VERBATIM_SOFT_DIR", "/proc", 1);  // Open to others, so not usable.
    const auto context = open_device("soft0");
    ASSERT_FALSE(context.has_value());
    EXPECT_EQ(context.error(), Errc::permission_denied);
    EXPECT_EQ(context.error().text_view(), "/proc");
  });
}

}  // namespace
}  // namespace verbatim::test
