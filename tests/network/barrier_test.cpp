// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/barrier.cpp, network/barrier_wait.cpp, network/group.cpp
//
// Barriers that work: no rank continues before all have come.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "network/barrier_algorithms.hpp"
#include "network/barrier_world.hpp"
#include "support/require.hpp"
#include "support/seed.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/channel/unsafe.hpp"
#include "verbatim/soft/soft_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

testing::AssertionResult passes(const BarrierResult& result) {
  if (result) return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_string(result.error());
}

/// Counts how many ranks have come to each of many barriers.
class Entrances {
 public:
  explicit Entrances(std::size_t barriers) : count_(barriers) {}
  void enter(std::size_t barrier) { ++count_[barrier]; }
  [[nodiscard]] std::size_t count(std::size_t barrier) const { return count_[barrier]; }

 private:
  std::vector<std::atomic<std::size_t>> count_;
};

TEST(Barrier, LetsNobodyGoOnBeforeAllHaveCome) {
  constexpr std::size_t kEpochs = 100;
  for (const Rank size : {2u, 3u, 4u, 5u, 8u}) {
    World world{size};
    for (const auto algorithm : kAlgorithms) {
      Entrances entrances{kEpochs};
      world.run([&](WorldRank& self) {
        Barrier barrier = self.barrier(everyone(size), algorithm);
        for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
          entrances.enter(epoch);
          ASSERT_TRUE(passes(barrier(kLong))) << to_string(algorithm) << " of " << size;
          ASSERT_EQ(entrances.count(epoch), size);
        }
      });
    }
  }
}

TEST(Barrier, SpinsWhereEachRankHasAProcessor) {
  constexpr std::size_t kEpochs = 300;
  World world{2, {.oversubscribed = false}};
  Entrances entrances{kEpochs};
  world.run([&](WorldRank& self) {
    Barrier barrier = self.barrier(everyone(2));
    for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
      entrances.enter(epoch);
      ASSERT_TRUE(passes(barrier(kLong)));
      ASSERT_EQ(entrances.count(epoch), 2u);
    }
  });
}

/// Any ranks, any algorithm, any time; the list is the same for all.
TEST(Barrier, HoldsForRandomGroupsAndRandomTimes) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(replay(seed));
  constexpr Rank kRanks = 6;
  constexpr std::size_t kBarriers = 150;
  struct Planned {
    std::vector<Rank> ranks;
    BarrierAlgorithm algorithm;
  };
  std::mt19937_64 random{seed};
  std::vector<Planned> list;
  while (list.size() < kBarriers) {
    Planned next{{}, *(kAlgorithms.begin() + random() % 3)};
    for (Rank rank = 0; rank < kRanks; ++rank)
      if (random() % 2 == 0) next.ranks.push_back(rank);
    if (next.ranks.size() >= 2) list.push_back(next);
  }
  World world{kRanks};
  Entrances entrances{kBarriers};
  world.run([&](WorldRank& self) {
    std::mt19937_64 own{seed + self.rank};
    for (std::size_t i = 0; i < kBarriers; ++i) {
      if (!std::ranges::binary_search(list[i].ranks, self.rank)) continue;
      if (own() % 8 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds{own() % 2000});  // wait: comes late
      Barrier barrier = self.barrier(list[i].ranks, list[i].algorithm);
      entrances.enter(i);
      ASSERT_TRUE(passes(barrier(kLong))) << "barrier " << i;
      ASSERT_EQ(entrances.count(i), list[i].ranks.size()) << "barrier " << i;
    }
  });
}

TEST(Barrier, OfOneRankIsOverAtOnce) {
  World world{2};
  const Rank own[] = {1};
  Barrier barrier = world[1].barrier(own);
  EXPECT_TRUE(passes(barrier(0ns)));
  EXPECT_TRUE(succeeds(barrier.arrive()));
  EXPECT_TRUE(barrier.ready());
  EXPECT_TRUE(passes(barrier.wait(0ns)));
  EXPECT_TRUE(passes(barrier(0ns)));
}

TEST(Barrier, CanBeEnteredNowAndLeftLater) {
  World world{3};
  for (const auto algorithm : kAlgorithms) {
    std::vector<Barrier> barriers;
    for (Rank rank = 0; rank < 3; ++rank)
      barriers.push_back(world[rank].barrier(everyone(3), algorithm));
    for (int epoch = 0; epoch < 50; ++epoch) {
      ASSERT_TRUE(succeeds(barriers[2].arrive()));
      ASSERT_TRUE(succeeds(barriers[0].arrive()));
      for (int look = 0; look < 5; ++look) {
        ASSERT_FALSE(barriers[0].ready());
        ASSERT_FALSE(barriers[2].ready());
      }
      ASSERT_TRUE(succeeds(barriers[1].arrive()));
      const auto end = std::chrono::steady_clock::now() + kLong;
      bool all = false;
      while (!all && std::chrono::steady_clock::now() < end) {
        all = true;
        for (Barrier& each : barriers) all = each.ready() && all;
      }
      ASSERT_TRUE(all);
      for (Barrier& each : barriers) ASSERT_TRUE(passes(each.wait(0ns)));
    }
  }
}

TEST(Barrier, MayBeOpenBesideAnotherThatSharesOnlyOurselves) {
  World world{3};
  const Rank left[] = {0, 1};
  const Rank right[] = {1, 2};
  Barrier one = world[1].barrier(left);
  Barrier two = world[1].barrier(right);
  ASSERT_TRUE(succeeds(one.arrive()));
  ASSERT_TRUE(succeeds(two.arrive()));
  Barrier other_right = world[2].barrier(right);
  EXPECT_TRUE(passes(other_right(kLong)));
  EXPECT_TRUE(passes(two.wait(kLong)));
  Barrier other_left = world[0].barrier(left);
  EXPECT_TRUE(passes(other_left(kLong)));
  EXPECT_TRUE(passes(one.wait(kLong)));
}

TEST(Barrier, ChoosesAsTheMembersAre) {
  World world{4};
  Barrier crowded = world[0].barrier(everyone(4), BarrierAlgorithm::automatic);
  EXPECT_EQ(crowded.algorithm(), BarrierAlgorithm::centralized);
  for (Member& each : world[0].group->members) each.processors = 4;
  Barrier roomy = world[0].barrier(everyone(4), BarrierAlgorithm::automatic);
  EXPECT_EQ(roomy.algorithm(), BarrierAlgorithm::dissemination);
  EXPECT_TRUE(std::ranges::equal(roomy.ranks(), everyone(4)));
}

Result<int> through(Barrier& barrier) {
  VERBATIM_TRY(barrier(0ns));
  return 1;
}

TEST(Barrier, IsTriedLikeAnyResult) {
  World world{2};
  const Rank own[] = {0};
  Barrier alone = world[0].barrier(own);
  EXPECT_EQ(require(through(alone)), 1);
  Barrier both = world[0].barrier(everyone(2));
  EXPECT_TRUE(fails_with(through(both), Errc::timed_out));
}

/// The device works later, at random times, so a look at it never shows everything.
class Deferred {
 public:
  explicit Deferred(std::chrono::nanoseconds delay) {
    soft::set_behaviour({.mode = soft::Mode::deferred, .max_delay = delay});
  }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  ~Deferred() { soft::set_behaviour({}); }
};

TEST(Barrier, NeedsNobodyElseToLookAtTheDevice) {
  World world{4};
  const Deferred deferred{200us};
  for (const auto algorithm : kAlgorithms)
    world.run([&](WorldRank& self) {
      Barrier barrier = self.barrier(everyone(4), algorithm);
      for (int epoch = 0; epoch < 40; ++epoch) ASSERT_TRUE(passes(barrier(kLong)));
    });
}

TEST(Barrier, WithAFenceWaitsForOurOwnWorkFirst) {
  World world{3};
  SharedRegion target = require(world[2].domain.allocate_shared(4096, Access::remote_write));
  Buffer source = require(world[0].domain.allocate(64));
  source.as<std::uint64_t>()[0] = 42;
  const Deferred deferred{20ms};
  const Rank others[] = {0, 1};  // Without the rank that is written to.
  Barrier barrier = world[0].barrier(others);
  std::vector<unsafe::PendingWork> writes;
  for (std::uint64_t i = 0; i < 8; ++i)
    writes.push_back(unsafe::post(
        world[0].channel(2), Write{source.gather(0, 64), *target.remote().sub_region(64 * i)}));
  ASSERT_TRUE(succeeds(barrier.arrive({.fence = true})));
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(target.load_acquire<std::uint64_t>(64 * i), 42u) << i;
  for (auto& each : writes) EXPECT_TRUE(succeeds(each.wait()));
  Barrier peer = world[1].barrier(others);
  EXPECT_TRUE(passes(peer(kLong, {.fence = true})));
  EXPECT_TRUE(passes(barrier.wait(kLong)));
}

TEST(Barrier, ThatCannotFenceInTimeHasNotBegun) {
  World world{2};
  Barrier barrier = world[0].barrier(everyone(2));
  // There is no receive for it, so it cannot be complete.
  auto sending = world[0].channel(1).send(require(world[0].domain.allocate(8)));
  const auto late = barrier(1ns, {.fence = true});
  ASSERT_TRUE(late == Errc::timed_out);
  EXPECT_STREQ(late.error().error.field, "fence: sends to rank");
  EXPECT_EQ(late.error().error.value, 1u);
  auto receiving = world[1].channel(0).receive(require(world[1].domain.allocate(8)));
  EXPECT_TRUE(succeeds(sending.wait(kLong).result));
  EXPECT_TRUE(succeeds(receiving.wait(kLong).result));
  EXPECT_TRUE(barrier.wait(0ns) == Errc::not_ready);
  ASSERT_TRUE(succeeds(barrier.arrive()));
  Barrier peer = world[1].barrier(everyone(2));
  EXPECT_TRUE(passes(peer(kLong)));
  EXPECT_TRUE(passes(barrier.wait(kLong)));
}

}  // namespace
}  // namespace verbatim::test
