// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a checker touches the memory of an operation only if it is memory of this process: elements
//       of zero-based regions and of dmabufs are offsets or device addresses.
// Method: a scripted device; a checked build reads what is sent, so that a wrong address ends the
//         program.
// Covers: verbs/unaddressable.cpp
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "support/scripted_device.hpp"
#include "verbatim/channel/unsafe.hpp"

namespace verbatim::test {
namespace {

class FlightTest : public ScriptedDevice {
 protected:
  FlightTest() { open_channel(); }
  /// Both directions at once, on the same bytes, which a checker would call an overlap.
  void use(const MemoryRegion& region) {
    auto receiving = unsafe::post(channel(), Receive{require(region.scatter_at(0, 64))});
    auto sending = unsafe::post(channel(), Send{require(region.gather_at(8, 8))});
    script.complete(script.sends.back().id);
    script.complete(script.receives.back().id, IBV_WC_SUCCESS, IBV_WC_RECV);
    EXPECT_TRUE(succeeds(sending.wait()));
    EXPECT_TRUE(succeeds(receiving.wait()));
  }
};

TEST_F(FlightTest, ZeroBasedElementsAreNotRead) {
  std::array<std::byte, 64> memory{};
  auto region = require(domain().register_custom(memory, Access::local_write | Access::zero_based));
  use(region);
  require(region.reregister(Access::local_write | Access::zero_based | Access::remote_read));
  use(region);
}

TEST_F(FlightTest, DmabufElementsAreNotRead) {
  const auto region = require(domain().register_dmabuf({.fd = 0, .length = 4096, .iova = 0x10000}));
  use(region);
}

TEST_F(FlightTest, KeyThatIsUsedAgainIsOfMemoryAgain) {
  std::array<std::byte, 64> memory{};
  {
    const auto region =
        require(domain().register_custom(memory, Access::local_write | Access::zero_based));
    use(region);
  }
  const auto region = require(domain().register_local(memory));
  auto receiving = unsafe::post(channel(), Receive{region.scatter(memory)});
  if constexpr (dma::kModelled) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(static_cast<void>(unsafe::post(channel(), Send{region.gather(memory)})),
                 "overlaps an operation in flight");
  }
  script.complete(script.receives.back().id, IBV_WC_SUCCESS, IBV_WC_RECV);
  EXPECT_TRUE(succeeds(receiving.wait()));
}

}  // namespace
}  // namespace verbatim::test
