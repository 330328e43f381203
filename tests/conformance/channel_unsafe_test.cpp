// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every kind of work can be posted without a scope, on borrowed memory, and works.
// Method: one of each kind, with its data; then as many as the queues hold, waited for in any
//         order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "conformance/connected_channels.hpp"
#include "verbatim/channel/unsafe.hpp"

namespace verbatim::test {
namespace {

class ChannelUnsafe : public ChannelsAndMemory {};

TEST_F(ChannelUnsafe, SendsAndReceivesWithAndWithoutImmediateAndData) {
  auto first = unsafe::post(right, Receive{place(0)});
  auto second = unsafe::post(right, Receive{place(1)});
  auto third = unsafe::post(right, Receive{});
  auto plain = unsafe::post(left, Send{piece(0)});
  auto with = unsafe::post(left, Send{piece(1), {.immediate = 7}});
  auto only = unsafe::post(left, send_immediate(9));
  EXPECT_TRUE(succeeds(plain.wait()));
  EXPECT_TRUE(succeeds(with.wait()));
  EXPECT_TRUE(succeeds(only.wait()));
  EXPECT_EQ(require(first.wait()).immediate(), std::nullopt);
  EXPECT_EQ(require(second.wait()).immediate(), 7u);
  EXPECT_EQ(require(third.wait()).immediate(), 9u);
  EXPECT_EQ(std::memcmp(sink.data(), source.data(), 2 * kPiece), 0);
}

TEST_F(ChannelUnsafe, WritesReadsAndAtomics) {
  SharedRegion window = require(domain.allocate_shared(
      kPiece, Access::remote_read | Access::remote_write | Access::remote_atomic));
  auto told = unsafe::post(right, Receive{});
  EXPECT_TRUE(succeeds(unsafe::post(left, Write{piece(2), window.remote()}).wait()));
  EXPECT_TRUE(
      succeeds(unsafe::post(left, Write{piece(3), window.remote(), {.immediate = 5}}).wait()));
  EXPECT_EQ(require(told.wait()).immediate(), 5u);
  EXPECT_TRUE(succeeds(unsafe::post(left, Read{place(0), window.remote()}).wait()));
  EXPECT_TRUE(std::ranges::equal(came(0), std::span{source}.subspan(3 * kPiece, kPiece)));
  if (!context.capabilities().atomics) return;
  std::uint64_t before = 0;
  std::memcpy(&before, came(0).data(), sizeof before);
  const RemoteAtomic word = require(RemoteAtomic::at(window.remote(), 0));
  Buffer old = require(domain.allocate(sizeof before));
  const auto expect_old = [&](std::uint64_t expected) {
    EXPECT_EQ(std::memcmp(old.bytes().data(), &expected, sizeof expected), 0);
  };
  EXPECT_TRUE(
      succeeds(unsafe::post(left, FetchAdd{.into = old.scatter(), .at = word, .add = 3}).wait()));
  expect_old(before);
  EXPECT_TRUE(succeeds(
      unsafe::post(left,
                   CompareSwap{.into = old.scatter(), .at = word, .compare = before + 3, .swap = 1})
          .wait()));
  expect_old(before + 3);
}

TEST_F(ChannelUnsafe, ManyAtOnceInAnyOrderAndBesideOtherForms) {
  std::vector<unsafe::PendingWork> all;
  for (std::size_t i = 0; i < 32; ++i) all.push_back(unsafe::post(right, Receive{place(i)}));
  for (std::size_t i = 0; i < 31; ++i) all.push_back(unsafe::post(left, Send{piece(i)}));
  EXPECT_TRUE(succeeds(left.send(piece(31))));
  std::ranges::shuffle(all, std::mt19937_64{seed});
  for (auto& each : all) EXPECT_TRUE(succeeds(each.wait()));
  EXPECT_EQ(std::memcmp(sink.data(), source.data(), 32 * kPiece), 0);
  EXPECT_EQ(left.free_sends(), 127u);
  EXPECT_EQ(right.free_receives(), 127u);
}

TEST_F(ChannelUnsafe, DroppedReceiveStillTakesAMessage) {
  {
    const auto dropped = unsafe::post(right, Receive{place(0)});
  }
  EXPECT_TRUE(succeeds(left.send(piece(0))));
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(right.poll());
    return right.dropped_messages() == 1;
  }));
  EXPECT_TRUE(std::ranges::equal(came(0), std::span{source}.first(kPiece)));
  exchange(left, right);
}

}  // namespace
}  // namespace verbatim::test
