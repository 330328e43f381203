// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks that join can reach each other, and only those to which they are connected; errors
//       name the rank; a rank that leaves in order disturbs nobody.
// Method: ranks as threads, on the software device, with a real coordinator.
// Covers: network/node.cpp, network/node_connect.cpp
#include "verbatim/network/node.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "network/ranks.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

std::uint64_t word_of(Rank from, Rank to) { return std::uint64_t{from} << 32 | to; }

void put(Buffer& buffer, std::uint64_t word) {
  std::memcpy(buffer.bytes().data(), &word, sizeof word);
}
std::uint64_t get(Buffer& buffer) {
  std::uint64_t word = 0;
  std::memcpy(&word, buffer.bytes().data(), sizeof word);
  return word;
}

/// Each rank exchanges messages with each other rank.
void all_to_all(Node& node, const RankDevice& device) {
  std::vector<Pending<Buffer>> receiving;
  std::vector<Rank> others;
  for (Rank rank = 0; rank < node.world(); ++rank) {
    if (rank == node.rank() || !node.members()[rank].present) continue;
    others.push_back(rank);
    receiving.push_back(node[rank].receive(require(device.domain.allocate(8))));
  }
  ASSERT_TRUE(node.barrier(kNodePatience));
  for (const Rank rank : others) {
    Buffer buffer = require(device.domain.allocate(8));
    put(buffer, word_of(node.rank(), rank));
    const auto sent = node[rank].send(std::move(buffer)).wait(kNodePatience);
    ASSERT_TRUE(sent.result) << to_string(sent.result.error());
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    auto [buffer, result] = receiving[i].wait(kNodePatience);
    ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_EQ(get(buffer), word_of(others[i], node.rank()));
  }
}

class NodeWorlds : public testing::TestWithParam<Rank> {};

TEST_P(NodeWorlds, EverybodyReachesEverybody) {
  run_ranks(GetParam(), {}, [](Node& node, const RankDevice& device) {
    all_to_all(node, device);
    const auto left = node.leave(kNodePatience);
    EXPECT_TRUE(left) << to_string(left.error());
  });
}
INSTANTIATE_TEST_SUITE_P(Sizes, NodeWorlds, testing::Values(1, 2, 3, 5, 8));

TEST(NodeTest, RegionsAreExchangedAndWritten) {
  run_ranks(4, {}, [](Node& node, const RankDevice& device) {
    SharedRegion board = require(device.domain.allocate_shared(64, Access::remote_write));
    const auto boards = require(node.exchange(board.remote()));
    ASSERT_EQ(boards.size(), 4u);
    const Rank next = (node.rank() + 1) % 4;
    Buffer buffer = require(device.domain.allocate(8));
    put(buffer, node.rank() + 100);
    ASSERT_TRUE(node[next].write(std::move(buffer), *boards[next].sub_region(0, 8)).wait().result);
    ASSERT_TRUE(node.barrier(kNodePatience, {.fence = true}));
    EXPECT_EQ(board.load_acquire<std::uint64_t>(0), (node.rank() + 3) % 4 + 100);
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeTest, BulkCallsTakeRanks) {
  run_ranks(4, {}, [](Node& node, const RankDevice& device) {
    Buffer buffer = require(device.domain.allocate(8));
    if (node.rank() == 2) {
      put(buffer, 77);
      ASSERT_TRUE(node.barrier(kNodePatience));
      const std::vector<PeerIndex> all{0, 1, 3};
      const auto sent = node.peers().multicast(all, Send{buffer.gather()});
      EXPECT_TRUE(sent);
    } else {
      auto receiving = node[2].receive(std::move(buffer));
      ASSERT_TRUE(node.barrier(kNodePatience));
      auto [filled, result] = receiving.wait(kNodePatience);
      ASSERT_TRUE(result) << to_string(result.error());
      EXPECT_EQ(get(filled), 77u);
    }
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeTest, KnowsTheWorld) {
  run_ranks(3, {}, [](Node& node, const RankDevice&) {
    EXPECT_EQ(node.world(), 3u);
    EXPECT_EQ(node.generation(), 1u);
    ASSERT_EQ(node.members().size(), 3u);
    for (Rank rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(node.members()[rank].present);
      EXPECT_EQ(node.members()[rank].rank, rank);
      EXPECT_GT(node.members()[rank].processors, 0);
    }
    EXPECT_EQ(node.find(node.rank()).error().code, Errc::not_found);
    EXPECT_EQ(node.find(3).error().code, Errc::not_found);
    EXPECT_EQ(node.find(3).error().value, 3u);
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeTest, WhoIsNotConnectedIsNotReady) {
  run_ranks(3, {.connect = Connect::none}, [](Node& node, const RankDevice& device) {
    const Rank next = (node.rank() + 1) % 3;
    const auto missing = node.find(next);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Errc::not_ready);
    EXPECT_EQ(missing.error().value, next);
    EXPECT_NE(to_string(missing.error()).find("connect()"), std::string::npos);
    const auto barrier = node.barrier(kNodePatience);
    ASSERT_FALSE(barrier);
    EXPECT_EQ(barrier.error().error.code, Errc::not_ready);
    // A bulk call reports the same, and names the rank. A rank that can never be there is not
    // found.
    const std::pair<Rank, Errc> absent[] = {
        {next, Errc::not_ready}, {Rank{3}, Errc::not_found}, {node.rank(), Errc::not_found}};
    for (const auto& [rank, code] : absent) {
      const auto bulk = node.peers().multicast(std::vector{rank}, Send{}, kNodePatience);
      ASSERT_FALSE(bulk);
      ASSERT_EQ(bulk.error().peers.size(), 1u);
      const PeerError& refused = bulk.error().peers[0];
      EXPECT_EQ(refused.peer, rank);
      EXPECT_EQ(refused.code, code);
      EXPECT_EQ(refused.value, rank);
      EXPECT_STREQ(refused.operation, "multicast");
    }

    // Only 0 and 1 connect.
    if (node.rank() < 2) {
      const Rank other = 1 - node.rank();
      const auto connected = node.connect(std::vector{other}, kNodePatience);
      ASSERT_TRUE(connected) << to_string(connected.error());
      auto receiving = node[other].receive(require(device.domain.allocate(8)));
      Buffer buffer = require(device.domain.allocate(8));
      put(buffer, word_of(node.rank(), other));
      ASSERT_TRUE(node[other].send(std::move(buffer)).wait(kNodePatience).result);
      auto [filled, result] = receiving.wait(kNodePatience);
      ASSERT_TRUE(result);
      EXPECT_EQ(get(filled), word_of(other, node.rank()));
      EXPECT_TRUE(node.connect(std::vector{other}, kNodePatience)) << "again";
      EXPECT_FALSE(node.find(2));
    }
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeTest, ConnectRefusesWhatIsNoPeer) {
  run_ranks(2, {}, [](Node& node, const RankDevice&) {
    for (const Rank wrong : {node.rank(), Rank{2}}) {
      const auto refused = node.connect(std::vector{wrong}, kNodePatience);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Errc::invalid_argument);
      EXPECT_EQ(refused.error().value, wrong);
    }
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeTest, ConnectThatThePeerDoesNotMakeTimesOutAndNamesIt) {
  run_ranks(2, {.connect = Connect::none}, [](Node& node, const RankDevice&) {
    if (node.rank() == 0) {
      const auto late = node.connect(std::vector{Rank{1}}, 100ms);
      ASSERT_FALSE(late);
      EXPECT_EQ(late.error().code, Errc::timed_out);
      EXPECT_EQ(node.find(1).error().code, Errc::not_ready);
    }
    EXPECT_TRUE(node.exchange(node.rank(), kNodePatience)) << "nobody left before";
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeTest, PartnersAreEnoughForABarrier) {
  run_ranks(6, {.connect = Connect::partners, .barrier = BarrierAlgorithm::dissemination},
            [](Node& node, const RankDevice&) {
              for (int round = 0; round < 20; ++round) ASSERT_TRUE(node.barrier(kNodePatience));
              EXPECT_EQ(node.find((node.rank() + 3) % 6).error().code, Errc::not_ready);
              EXPECT_TRUE(node.find((node.rank() + 1) % 6));
              EXPECT_TRUE(node.leave(kNodePatience));
            });
}

TEST(NodeTest, SubsetsMeetByThemselves) {
  run_ranks(4, {}, [](Node& node, const RankDevice&) {
    const std::vector<Rank> even{0, 2};
    const std::vector<Rank> odd{1, 3};
    auto own = require(node.make_barrier(node.rank() % 2 == 0 ? even : odd));
    for (int round = 0; round < 20; ++round) ASSERT_TRUE(own(kNodePatience));
    EXPECT_EQ(node.make_barrier(node.rank() % 2 == 0 ? odd : even).error().code,
              Errc::invalid_argument);
    ASSERT_TRUE(node.barrier(kNodePatience));
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

TEST(NodeTest, OtherOptionsElsewhereAreIncompatible) {
  const Job job{2};
  std::vector<std::jthread> ranks;
  std::atomic<int> refused = 0;
  for (Rank rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      const RankDevice device;
      const auto joined = Node::join(device.domain, job.identity(rank),
                                     {.connect = rank == 0 ? Connect::all : Connect::none,
                                      .timeout = kNodePatience,
                                      .detect = kNodePatience});
      if (!joined && joined.error() == Errc::incompatible &&
          std::string_view{joined.error().field} == "connect")
        ++refused;
    });
  ranks.clear();
  EXPECT_GE(refused, 1) << "the other one may see a loss first";
}

TEST(NodeTest, ADeviceThatTheConfigurationDoesNotNameIsRefused) {
  const Job job{1};
  const RankDevice device;
  Identity identity = job.identity(0);
  identity.device = "mlx5_0";
  const auto joined = Node::join(device.domain, identity);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Errc::incompatible);
  EXPECT_NE(to_string(joined.error()).find("mlx5_0"), std::string::npos);
  identity.device = "soft0";
  EXPECT_TRUE(Node::join(device.domain, identity));
}

TEST(NodeTest, ARankBeyondTheWorldIsRefused) {
  const Job job{2};
  const RankDevice device;
  const auto joined = Node::join(device.domain, job.identity(2));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Errc::invalid_argument);
  EXPECT_EQ(joined.error().value, 2u);
}

TEST(NodeTest, NobodySeesAnErrorWhenAllLeave) {
  for (int round = 0; round < 10; ++round)
    run_ranks(4, {}, [](Node& node, const RankDevice& device) {
      all_to_all(node, device);
      const auto left = node.leave(kNodePatience);
      ASSERT_TRUE(left) << to_string(left.error());
      EXPECT_TRUE(node.leave(kNodePatience)) << "again";
    });
}

TEST(NodeTest, WhoLeavesIsPeerClosedToWhoWaitsForIt) {
  run_ranks(3, {}, [](Node& node, const RankDevice& device) {
    if (node.rank() != 1) {
      auto [buffer, result] =
          node[1].receive(require(device.domain.allocate(8))).wait(kNodePatience);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, Errc::peer_closed) << to_string(result.error());
      EXPECT_EQ(result.error().value, 1u);
      EXPECT_TRUE(buffer);
      // The other ranks continue.
      const Rank other = 2 - node.rank();
      auto receiving = node[other].receive(std::move(buffer));
      ASSERT_TRUE(node[other].send(require(device.domain.allocate(8))).wait(kNodePatience).result);
      EXPECT_TRUE(receiving.wait(kNodePatience).result);
    }
    EXPECT_TRUE(node.leave(kNodePatience));
  });
}

}  // namespace
}  // namespace verbatim::test
