// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the program's own memory is sent and filled through a RegionCache, and stays registered
//       while the device uses it.
// Method: a cache for one entry, which drops the entry while the operation is on its way.
#include "verbatim/reactor/region_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "conformance/connected_channels.hpp"

namespace verbatim::test {
namespace {

using Bytes = std::vector<std::byte>;

class CachedRegions : public ConnectedChannels {
 protected:
  RegionCache cache{domain, {.entries = 1}};
};

TEST_F(CachedRegions, MemoryOfOnesOwnIsSentAndFilled) {
  const auto source = std::make_shared<Bytes>(kPiece);
  const auto sink = std::make_shared<Bytes>(kPiece);
  for (std::uint64_t round = 0; round < 3; ++round) {
    fill(*source, seed + round);
    auto receiving = right.receive(require(cache.find(sink)));
    const std::shared_ptr<const Bytes> read_only = source;
    EXPECT_TRUE(succeeds(left.send(require(cache.find(read_only))).wait().result));
    auto received = receiving.wait();
    ASSERT_TRUE(succeeds(received.result));
    EXPECT_EQ(received.buffer.get(), sink);
    EXPECT_EQ(received.received().data(), sink->data());
    EXPECT_TRUE(holds(*sink, seed + round));
  }
}

TEST_F(CachedRegions, LetGoInFlightItStaysUntilTheDeviceIsDone) {
  auto sink = std::make_shared<Bytes>(kPiece);
  const std::weak_ptr<Bytes> alive = sink;
  auto receiving = right.receive(require(cache.find(std::move(sink))));
  EXPECT_TRUE(cache.find(std::make_shared<Bytes>(kPiece)));  // The entry is dropped.
  cache.clear();
  ASSERT_FALSE(alive.expired());
  EXPECT_TRUE(succeeds(left.send(filled(kPiece, seed)).wait().result));
  auto [memory, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(*memory, seed));
}

TEST_F(CachedRegions, OfADroppedHandleItStaysToo) {
  auto sink = std::make_shared<Bytes>(kPiece);
  const std::weak_ptr<Bytes> alive = sink;
  static_cast<void>(right.receive(require(cache.find(std::move(sink)))));
  cache.clear();
  EXPECT_FALSE(alive.expired());
  EXPECT_TRUE(succeeds(left.send(filled(kPiece, seed)).wait().result));
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!alive.expired() && std::chrono::steady_clock::now() < end) ASSERT_TRUE(right.poll());
  EXPECT_TRUE(alive.expired());
}

TEST_F(CachedRegions, RangeOfItIsSent) {
  const auto source = std::make_shared<Bytes>(kPiece);
  fill(*source, seed);
  auto receiving = right.receive(empty(kPiece));
  EXPECT_TRUE(
      succeeds(left.send(require(cache.find(source)), {.offset = 8, .length = 16}).wait().result));
  auto received = receiving.wait();
  ASSERT_TRUE(succeeds(received.result));
  EXPECT_TRUE(std::ranges::equal(received.received(), std::span{*source}.subspan(8, 16)));
}

}  // namespace
}  // namespace verbatim::test
