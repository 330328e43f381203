// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: bulk calls that own their memory return it whatever happened, with the result for each
//       peer; a handle that is dropped, or that outlives everything, does no harm.
// Covers: multi/multi_channel.cpp
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "conformance/multi_peers.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class OwnedBulk : public MultiPeers {
 protected:
  using Sends = std::vector<PeerSend<Buffer>>;
  using Receives = std::vector<PeerReceive<Buffer>>;
  [[nodiscard]] Sends sends(const std::vector<PeerIndex>& peers) {
    Sends made;
    for (const PeerIndex peer : peers) made.push_back({peer, filled(peer % 64)});
    return made;
  }
  [[nodiscard]] Receives receives(const std::vector<PeerIndex>& peers) {
    Receives made;
    for (const PeerIndex peer : peers) made.push_back({peer, memory()});
    return made;
  }
  const std::vector<PeerIndex> all = multi.peers();
};

TEST_F(OwnedBulk, MulticastGivesTheBufferBack) {
  auto receiving = accept_from_all();
  Buffer buffer = filled(5);
  const std::byte* const where = buffer.bytes().data();
  auto sending = multi.multicast(all, std::move(buffer));
  auto [back, result] = sending.wait();
  EXPECT_TRUE(succeeds(result));
  ASSERT_TRUE(static_cast<bool>(back));
  EXPECT_EQ(back.bytes().data(), where);
  for (auto& each : receiving) EXPECT_TRUE(got(each, 5));
  EXPECT_TRUE(all_idle());
}

TEST_F(OwnedBulk, MulticastOfASharedBufferAndOfAPart) {
  auto receiving = accept_from_all();
  const auto value = std::make_shared<const Buffer>(filled(6));
  auto sending = multi.multicast(all, value, {.length = 8}, {.immediate = 3});
  const auto [back, result] = sending.wait();
  EXPECT_TRUE(succeeds(result));
  EXPECT_EQ(back, value);
  for (auto& each : receiving) {
    const auto done = each.wait();
    ASSERT_TRUE(succeeds(done.result));
    EXPECT_EQ(done.received().size(), 8u);
    EXPECT_EQ(done.result->immediate(), 3u);
  }
}

TEST_F(OwnedBulk, ScatterAndGatherKeepTheirOrder) {
  auto receiving = accept_from_all();
  auto sent = multi.scatter(sends({3, 1, 0, 2})).wait();
  EXPECT_TRUE(succeeds(sent.result));
  ASSERT_EQ(sent.each.size(), all.size());
  EXPECT_TRUE(is_piece(sent.each[0].buffer.bytes(), 3));
  for (const PeerIndex peer : all) EXPECT_TRUE(got(receiving[peer], peer));

  auto gathering = multi.gather(receives({2, 0}));
  EXPECT_FALSE(gathering.ready());
  EXPECT_TRUE(succeeds(far[0]->send(piece(10))));
  EXPECT_TRUE(succeeds(far[2]->send(piece(12))));
  const auto gathered = gathering.wait();
  EXPECT_TRUE(succeeds(gathered.result));
  EXPECT_TRUE(is_piece(gathered.each[0].received(), 12));
  EXPECT_TRUE(is_piece(gathered.each[1].received(), 10));
}

TEST_F(OwnedBulk, WritesAndReads) {
  SharedRegion window =
      require(domain.allocate_shared(2 * kPiece, Access::remote_read | Access::remote_write));
  const RemoteMemoryRegion first = *window.remote().sub_region(0, kPiece);
  const RemoteMemoryRegion second = *window.remote().sub_region(kPiece, kPiece);
  std::vector<PeerWrite<Buffer>> writes;
  writes.push_back({0, filled(1), first});
  writes.push_back({1, filled(2), second});
  EXPECT_TRUE(succeeds(multi.scatter(std::move(writes)).wait().result));
  std::vector<PeerRead<Buffer>> reads;
  reads.push_back({2, memory(), second});
  reads.push_back({3, memory(), first});
  const auto read = multi.gather(std::move(reads)).wait();
  EXPECT_TRUE(succeeds(read.result));
  EXPECT_TRUE(is_piece(read.each[0].received(), 2));
  EXPECT_TRUE(is_piece(read.each[1].received(), 1));
}

TEST_F(OwnedBulk, OwnersWithoutMemory) {
  std::vector<PeerReceive<NoMemory>> signals;
  for (const PeerIndex peer : all) signals.push_back({peer, NoMemory{}});
  auto waiting = multi.gather(std::move(signals));
  for (const PeerIndex peer : all) EXPECT_TRUE(succeeds(far[peer]->run(send_immediate(peer))));
  const auto done = waiting.wait();
  EXPECT_TRUE(succeeds(done.result));
  for (const PeerIndex peer : all) EXPECT_EQ(done.each[peer].result->immediate(), peer);
}

TEST_F(OwnedBulk, BadIndexMidwayPostsNothingAndGivesAllBack) {
  auto [buffer, result] = multi.multicast(std::vector<PeerIndex>{0, 7, 1}, filled(3)).wait();
  EXPECT_TRUE(names(result, {{7, Errc::not_found}}));
  EXPECT_TRUE(is_piece(buffer.bytes(), 3));
  const auto sent = multi.scatter(sends({0, 1, 7})).wait();
  EXPECT_TRUE(names(sent.result, {{7, Errc::not_found}}));
  for (const auto& each : sent.each) EXPECT_TRUE(fails_with(each.result, Errc::not_found));
  EXPECT_TRUE(is_piece(sent.each[1].buffer.bytes(), 1));
  const auto received = multi.gather(receives({0, 7})).wait();
  EXPECT_TRUE(names(received.result, {{7, Errc::not_found}}));
  EXPECT_TRUE(static_cast<bool>(received.each[0].buffer));
  EXPECT_TRUE(all_idle());
  EXPECT_TRUE(works(0, 20));
}

TEST_F(OwnedBulk, FullQueueIsToldAtThatPeerOnly) {
  std::vector<Pending<Buffer>> stuck;
  for (std::uint32_t i = 0; i < kDepth; ++i) stuck.push_back(multi[1].send(memory()));
  std::vector<Pending<Buffer>> receiving;
  for (const PeerIndex peer : {0u, 2u, 3u}) receiving.push_back(accept(peer));
  auto [buffer, result] = multi.multicast(all, filled(3)).wait();
  EXPECT_TRUE(names(result, {{1, Errc::would_block}}));
  EXPECT_TRUE(static_cast<bool>(buffer));
  EXPECT_FALSE(multi[1].cause());
  for (auto& each : receiving) EXPECT_TRUE(got(each, 3));
  for (std::uint32_t i = 0; i < kDepth; ++i) receiving.push_back(accept(1));
  for (auto& each : stuck) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(OwnedBulk, LatePeersEndTogetherAndGiveTheirMemoryBack) {
  auto receiving = accept(2);
  std::vector<PeerIndex> deaf = crowd();
  auto sending = multi.scatter(sends(deaf));
  deaf.erase(deaf.begin() + 2);
  const auto start = std::chrono::steady_clock::now();
  const auto sent = sending.wait(kLate);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kTogether);
  EXPECT_TRUE(names(sent.result, late(deaf)));
  for (const auto& each : sent.each) EXPECT_TRUE(static_cast<bool>(each.buffer));
  EXPECT_TRUE(got(receiving, 2));
  EXPECT_TRUE(works(2));
}

TEST_F(OwnedBulk, DroppedHandleSendsAllTheSame) {
  auto receiving = accept_from_all();
  {
    const auto dropped = multi.multicast(all, filled(9));
  }
  for (auto& each : receiving) EXPECT_TRUE(got(each, 9));
}

TEST_F(OwnedBulk, HandleOutlivesTheMultiChannel) {
  std::optional<PendingBulk<Buffer>> waiting;
  {
    const MultiChannel gone = std::move(multi);
    multi = MultiChannel{reactor, domain};
    EXPECT_EQ(gone.size(), kPeers);
    std::vector<PeerReceive<Buffer>> receive;
    receive.push_back({0, memory()});
    waiting = const_cast<MultiChannel&>(gone).gather(std::move(receive));
  }
  const auto done = waiting->wait();
  EXPECT_TRUE(names(done.result, {{0, Errc::closed}}));
  EXPECT_TRUE(static_cast<bool>(done.each.front().buffer));
}

}  // namespace
}  // namespace verbatim::test
