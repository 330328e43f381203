// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: when a rank is lost, every other rank learns which one, wherever it waits; the others
//       continue, also as a new generation, with the lost rank restarted or without it.
// Method: ranks as threads; a rank is lost when its Node is destroyed without leave(). Processes
//         that are killed are in survivors_test.cpp.
// Covers: network/peer_news.cpp
#include <gtest/gtest.h>

#include <latch>

#include "network/ranks.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// Sends a message from each of ranks 0 to 2 to the next.
void pass_on(Node& node, const RankDevice& device) {
  const Rank next = (node.rank() + 1) % 3;
  const Rank before = (node.rank() + 2) % 3;
  auto receiving = node[before].receive(require(device.domain.allocate(8)));
  ASSERT_TRUE(node[next].send(require(device.domain.allocate(8))).wait(kNodePatience).result);
  EXPECT_TRUE(receiving.wait(kNodePatience).result);
}

/// After a barrier, before a rank goes: the loss would fail the barrier of a rank that is still in
/// it, and waits for the others. The session tells everybody at once.
Result<void> all_are_through(Node& node) { return node.session().meet(kNodePatience); }

TEST(NodeLoss, WaitsOnItsChannelNameTheRank) {
  run_ranks(3, {}, [](Node& node, const RankDevice& device) {
    if (node.rank() == 2) return;  // Without leave().
    const auto start = std::chrono::steady_clock::now();
    auto [buffer, result] = node[2].receive(require(device.domain.allocate(8))).wait(kNodePatience);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::peer_lost) << to_string(result.error());
    EXPECT_EQ(result.error().value, 2u);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kNodePatience / 2) << "not by a time-out";
    EXPECT_TRUE(buffer);
    ASSERT_TRUE(node[2].cause());
    EXPECT_EQ(node[2].cause()->code, Errc::peer_lost);
    const auto gone = node.departed();
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_EQ(gone[0].rank, 2u);
    EXPECT_EQ(gone[0].why, Departed::connection_ended);

    // The channel between the survivors still works.
    const Rank other = 1 - node.rank();
    auto receiving = node[other].receive(std::move(buffer));
    ASSERT_TRUE(node[other].send(require(device.domain.allocate(8))).wait(kNodePatience).result);
    EXPECT_TRUE(receiving.wait(kNodePatience).result);
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeLoss, SendsThatTheDeviceFailsFirstNameTheRankToo) {
  run_ranks(2, {}, [](Node& node, const RankDevice& device) {
    if (node.rank() == 1) return;
    Result<Completion> result{};
    for (int i = 0; i < 100000; ++i) {
      result = node[1].send(require(device.domain.allocate(8))).wait(kNodePatience).result;
      if (!result) break;
    }
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::peer_lost) << to_string(result.error());
    EXPECT_EQ(result.error().value, 1u);
    ASSERT_TRUE(node[1].cause());
    EXPECT_EQ(node[1].cause()->code, Errc::peer_lost) << to_string(*node[1].cause());
    EXPECT_EQ(node[1].cause()->value, 1u);
  });
}

TEST(NodeLoss, WithoutACoordinatorARankThatDoesNotAnswerIsLost) {
  Job job{3};
  std::latch joined{3}, alone{2};
  std::vector<std::jthread> ranks;
  for (Rank rank = 0; rank < 3; ++rank)
    ranks.push_back(start_rank(job, rank, {}, [&](Node& node, const RankDevice& device) {
      joined.arrive_and_wait();
      if (node.rank() == 0) job.end_coordinator();
      while (node.departed().empty()) std::this_thread::yield();
      EXPECT_EQ(node.departed().front().why, Departed::coordinator);
      if (node.rank() == 2) return alone.count_down();
      if (node.rank() == 1) {  // Both ranks that are left still reach each other.
        EXPECT_TRUE(node[0].receive(require(device.domain.allocate(8))).wait(kNodePatience).result);
        return alone.count_down();
      }
      EXPECT_TRUE(node[1].send(require(device.domain.allocate(8))).wait(kNodePatience).result);
      alone.wait();
      const auto start = std::chrono::steady_clock::now();
      Result<Completion> result{};
      while (result)
        result = node[2].send(require(device.domain.allocate(8))).wait(kNodePatience).result;
      EXPECT_EQ(result.error().code, Errc::peer_lost) << to_string(result.error());
      EXPECT_STREQ(result.error().field, "rank");
      EXPECT_EQ(result.error().value, 2u);
      EXPECT_LT(std::chrono::steady_clock::now() - start, kNodePatience / 2)
          << "nobody is left to wait for";
    }));
}

TEST(NodeLoss, CallsOfTheGroupNameTheRank) {
  run_ranks(4, {}, [](Node& node, const RankDevice& device) {
    if (node.rank() == 1) return;
    const auto met = node.barrier(kNodePatience);
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().error.code, Errc::peer_lost) << to_string(met.error());
    EXPECT_EQ(met.error().error.value, 1u);
    const auto exchanged = node.exchange(std::uint64_t{1}, kNodePatience);
    ASSERT_FALSE(exchanged);
    EXPECT_EQ(exchanged.error().code, Errc::peer_lost);
    EXPECT_EQ(exchanged.error().value, 1u);
    if (node.rank() == 0) {
      std::vector<PeerIndex> all{1, 2, 3};
      Buffer buffer = require(device.domain.allocate(8));
      const auto sent = node.peers().multicast(all, Write{buffer.gather(), RemoteMemoryRegion{}});
      EXPECT_FALSE(sent);
    }
  });
}

TEST(NodeLoss, SurvivorsRegroupAndGoOn) {
  run_ranks(4, {}, [](Node& node, const RankDevice& device) {
    const std::vector<Rank> everybody{0, 1, 2, 3};
    auto old = require(node.make_barrier(everybody));
    ASSERT_TRUE(old(kNodePatience));
    ASSERT_TRUE(all_are_through(node));
    if (node.rank() == 3) return;
    ASSERT_FALSE(node.barrier(kNodePatience));
    const auto regrouped = node.regroup(kNodePatience);
    ASSERT_TRUE(regrouped) << to_string(regrouped.error());
    EXPECT_EQ(node.generation(), 2u);
    EXPECT_FALSE(node.members()[3].present);
    EXPECT_TRUE(node.departed().empty());
    EXPECT_EQ(old(kNodePatience).error().error.code, Errc::stale);
    EXPECT_EQ(node.find(3).error().code, Errc::not_ready);
    for (int round = 0; round < 20; ++round) ASSERT_TRUE(node.barrier(kNodePatience));
    pass_on(node, device);
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeLoss, AProcessThatIsStartedAgainTakesTheLostRank) {
  const Job job{3};
  std::latch lost{1};
  const auto talk = [](Node& node, const RankDevice& device) {
    for (int round = 0; round < 10; ++round) ASSERT_TRUE(node.barrier(kNodePatience));
    pass_on(node, device);
    EXPECT_TRUE(node.leave(kNodePatience));
  };
  std::vector<std::jthread> ranks;
  for (Rank rank = 0; rank < 3; ++rank)
    ranks.push_back(start_rank(job, rank, {}, [&](Node& node, const RankDevice& device) {
      ASSERT_TRUE(node.barrier(kNodePatience));
      ASSERT_TRUE(all_are_through(node));
      if (node.rank() == 1) return;
      ASSERT_FALSE(node.barrier(kNodePatience));
      if (node.rank() == 0) lost.count_down();
      // Repeats until the third is there, because without it the survivors would be a group of two.
      for (;;) {
        const auto regrouped = node.regroup(kNodePatience);
        ASSERT_TRUE(regrouped) << to_string(regrouped.error());
        if (node.members()[1].present) break;
      }
      talk(node, device);
    }));
  lost.wait();
  ranks.push_back(start_rank(job, 1, {}, talk));
}

TEST(NodeLoss, AChannelThatBrokeIsMadeAnewByRegroup) {
  run_ranks(3, {}, [](Node& node, const RankDevice& device) {
    ASSERT_TRUE(node.barrier(kNodePatience));
    ASSERT_TRUE(all_are_through(node));
    if (node.rank() == 0) {  // One end only: the other may not know.
      EXPECT_FALSE(node[1].receive(require(device.domain.allocate(8))).wait(10ms).result);
      EXPECT_TRUE(node[1].cause());
    }
    if (node.rank() == 2) return;
    while (node.departed().empty()) std::this_thread::yield();
    const auto regrouped = node.regroup(kNodePatience);
    ASSERT_TRUE(regrouped) << to_string(regrouped.error());
    for (int round = 0; round < 10; ++round) ASSERT_TRUE(node.barrier(kNodePatience));
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

}  // namespace
}  // namespace verbatim::test
