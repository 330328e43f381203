// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens to barriers when a rank is lost, leaves, or seems to be gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <latch>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "network/barrier_algorithms.hpp"
#include "network/barrier_world.hpp"
#include "support/require.hpp"
#include "support/seed.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

testing::AssertionResult fails(const BarrierResult& result, Errc code, std::uint64_t value) {
  if (result) return testing::AssertionFailure() << "succeeded";
  const Error& error = result.error().error;
  if (error.code == code && error.value == value) return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_string(result.error());
}

TEST(BarrierLoss, IsToldToAllThatWaitWithTheRank) {
  for (const auto algorithm : kAlgorithms)
    for (const auto why : {Departed::connection_ended, Departed::silent, Departed::dropped}) {
      World world{4, {.session = true}};
      std::latch waiting{4};
      world.run([&](WorldRank& self) {
        Barrier barrier = self.barrier(everyone(4), algorithm);
        waiting.arrive_and_wait();
        if (self.rank == 2) return world.coordinator.depart({.rank = 2, .why = why});
        const auto start = std::chrono::steady_clock::now();
        EXPECT_TRUE(fails(barrier(kLong), Errc::peer_lost, 2)) << to_string(algorithm);
        EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2) << "not by a time-out";
        // Until a regroup.
        EXPECT_TRUE(fails(barrier(kLong), Errc::peer_lost, 2));
        EXPECT_TRUE(fails(self.barrier(everyone(4))(kLong), Errc::peer_lost, 2));
      });
    }
}

TEST(BarrierLoss, OfTheFirstOneIsToldIfThereAreSeveral) {
  World world{4, {.session = true}};
  world.coordinator.depart({.rank = 3, .why = Departed::left});
  world.coordinator.depart({.rank = 2, .why = Departed::silent});
  world.coordinator.depart({.rank = 1, .why = Departed::connection_ended});
  EXPECT_TRUE(fails(world[0].barrier(everyone(4))(kLong), Errc::peer_lost, 2));
  EXPECT_TRUE(fails(world[0].barrier(std::vector<Rank>{0, 1})(kLong), Errc::peer_lost, 1));
}

TEST(BarrierLoss, IsNoConcernOfBarriersWithoutTheRank) {
  World world{4, {.session = true}};
  world.coordinator.depart({.rank = 3, .why = Departed::connection_ended});
  world.run([&](WorldRank& self) {
    if (self.rank == 3) return;
    Barrier barrier = self.barrier(everyone(3));
    for (int epoch = 0; epoch < 20; ++epoch) ASSERT_TRUE(barrier(kLong).has_value());
  });
}

TEST(BarrierLoss, EndsAlsoThoseThatMeetTheSameRanksUntilARegroup) {
  World world{4, {.session = true}};
  Barrier three = world[0].barrier(everyone(3));
  ASSERT_TRUE(succeeds(three.arrive()));
  world.coordinator.depart({.rank = 2, .why = Departed::silent});
  EXPECT_TRUE(fails(three.wait(kLong), Errc::peer_lost, 2));
  // Rank 1 may have come to it or not, so nobody can tell what its next notice means.
  EXPECT_TRUE(fails(world[0].barrier(std::vector<Rank>{0, 1})(kLong), Errc::peer_lost, 2));
  EXPECT_TRUE(world[0].barrier(std::vector<Rank>{0, 3})(1ms) == Errc::timed_out);

  world.coordinator.begin();
  world[0].group->begin_generation(2);
  world[1].group->begin_generation(2);
  Barrier one = world[0].barrier(std::vector<Rank>{0, 1});
  Barrier two = world[1].barrier(std::vector<Rank>{0, 1});
  ASSERT_TRUE(succeeds(one.arrive()));
  EXPECT_TRUE(two(kLong).has_value());
  EXPECT_TRUE(one.wait(kLong).has_value());
}

TEST(BarrierLoss, IsFoundByWhoOnlyLooks) {
  World world{2, {.session = true}};
  Barrier barrier = world[0].barrier(everyone(2));
  ASSERT_TRUE(succeeds(barrier.arrive()));
  EXPECT_FALSE(barrier.ready());
  world.coordinator.depart({.rank = 1, .why = Departed::connection_ended});
  EXPECT_TRUE(barrier.ready());
  EXPECT_TRUE(fails(barrier.wait(0ns), Errc::peer_lost, 1));
}

TEST(BarrierLoss, OfOurselvesIsToldWithOurRank) {
  World world{2, {.session = true}};
  world.coordinator.depart({.rank = 0, .why = Departed::dropped});
  EXPECT_TRUE(fails(world[0].barrier(everyone(2))(kLong), Errc::peer_lost, 0));
}

TEST(BarrierLoss, OfTheCoordinatorEndsNoBarrier) {
  World world{3, {.session = true}};
  world.coordinator.depart({.rank = 0, .why = Departed::coordinator});
  Barrier first = world[1].barrier(std::vector<Rank>{0, 1});
  EXPECT_TRUE(first(3ms) == Errc::timed_out);
  EXPECT_TRUE(world[0].barrier(std::vector<Rank>{0, 1})(kLong).has_value());
  EXPECT_TRUE(first.wait(kLong).has_value());
  world.run([&](WorldRank& self) {
    Barrier barrier = self.barrier(everyone(3));
    for (int epoch = 0; epoch < 20; ++epoch) ASSERT_TRUE(barrier(kLong).has_value());
  });
}

/// A session that stays readable keeps the rank neither from sleeping nor from seeing what arrives.
TEST(BarrierLoss, KnownForLongAndOfOthersDoesNotDisturb) {
  World world{3, {.session = true}};
  Barrier barrier = world[0].barrier(std::vector<Rank>{0, 1});
  ASSERT_TRUE(succeeds(barrier.arrive()));
  std::jthread other{[&] {
    while (world[0].session->reports == 0) std::this_thread::yield();  // It sleeps.
    eventfd_write(world[0].session->fd(), 1);
    world.coordinator.depart({.rank = 2, .why = Departed::silent});
    eventfd_write(world[0].session->fd(), 1);
    std::this_thread::sleep_for(5ms);  // wait: it should sleep nevertheless
    EXPECT_TRUE(world[1].barrier(std::vector<Rank>{0, 1})(kLong).has_value());
  }};
  EXPECT_TRUE(barrier.wait(kLong).has_value());
}

/// What has arrived counts: the notices of a rank that is gone stay valid.
TEST(BarrierLoss, AfterAllHaveComeChangesNothing) {
  World world{2, {.session = true}};
  Barrier one = world[0].barrier(everyone(2));
  Barrier two = world[1].barrier(everyone(2));
  ASSERT_TRUE(succeeds(two.arrive()));
  world[1].flush();
  world.coordinator.depart({.rank = 1, .why = Departed::connection_ended});
  EXPECT_TRUE(one(kLong).has_value());
}

/// The last notice arrives between a look at the slot and the news that its sender is gone.
TEST(BarrierLoss, KnownBeforeTheLastNoticeIsSeenChangesNothing) {
  World world{2, {.session = true}};
  Barrier one = world[0].barrier(everyone(2));
  Barrier two = world[1].barrier(everyone(2));
  bool is_done = false;
  world[0].session->on_look = [&] {
    if (std::exchange(is_done, true)) return;
    ASSERT_TRUE(succeeds(two.arrive()));
    world[1].flush();
    world.coordinator.depart({.rank = 1, .why = Departed::connection_ended});
  };
  EXPECT_TRUE(one(kLong).has_value());
  EXPECT_TRUE(is_done);
}

// ---- Ranks that leave in order ------------------------------------------------------------------

TEST(BarrierLeave, WithoutComingIsToldAsThat) {
  for (const auto algorithm : kAlgorithms) {
    World world{4, {.session = true}};
    world.coordinator.depart({.rank = 3, .why = Departed::left});
    world.run([&](WorldRank& self) {
      if (self.rank == 3) return;
      Barrier barrier = self.barrier(everyone(4), algorithm);
      EXPECT_TRUE(fails(barrier(kLong), Errc::peer_closed, 3)) << to_string(algorithm);
    });
  }
}

/// Each rank leaves as soon as it is through, while others are still in the barrier.
TEST(BarrierLeave, RightBehindTheBarrierFailsNobody) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(replay(seed));
  for (const auto algorithm : kAlgorithms)
    for (int round = 0; round < 5; ++round) {
      World world{6, {.session = true}};
      world.run([&](WorldRank& self) {
        std::mt19937_64 random{seed + self.rank};
        Barrier barrier = self.barrier(everyone(6), algorithm);
        for (int epoch = 0; epoch < 3; ++epoch) {
          if (random() % 3 == 0)
            std::this_thread::sleep_for(2ms);  // wait: others look at the session meanwhile
          const auto met = barrier(kLong);
          ASSERT_TRUE(met.has_value()) << to_string(met.error());
        }
        self.flush();  // As a rank that leaves in order does.
        // The peers may see the end of the channel first, or the departure.
        if (random() % 2 == 0) self.channels.clear();
        world.coordinator.depart({.rank = self.rank, .why = Departed::left});
        self.channels.clear();
      });
    }
}

/// Rank 1 comes first and continues with the barrier last: ranks 3 and 5 wait for its other notices
/// long after ranks 0, 2 and 4 have left.
TEST(BarrierLeave, IsNoFailureForWhoWaitsForALateNotice) {
  World world{6, {.session = true}};
  std::latch first{1};
  std::latch all_came{6};
  world.run([&](WorldRank& self) {
    Barrier barrier = self.barrier(everyone(6), BarrierAlgorithm::dissemination);
    if (self.rank != 1) first.wait();
    ASSERT_TRUE(succeeds(barrier.arrive()));
    if (self.rank == 1) first.count_down();
    all_came.arrive_and_wait();
    if (self.rank == 1) std::this_thread::sleep_for(2500ms);  // wait: longer than others' patience
    const auto met = barrier.wait(kLong);
    EXPECT_TRUE(met.has_value()) << self.rank << ": " << to_string(met.error());
    self.flush();
    world.coordinator.depart({.rank = self.rank, .why = Departed::left});
    self.channels.clear();
  });
}

// ---- Suspicions ---------------------------------------------------------------------------------

TEST(BarrierSuspicion, IsToldAsTheTransportsErrorIfNobodyIsLost) {
  World world{2, {.session = true, .detect = 50ms}};
  Barrier barrier = world[0].barrier(everyone(2));
  world[0].channel(1).cancel();
  const auto start = std::chrono::steady_clock::now();
  const auto failed = barrier(kLong);
  EXPECT_TRUE(failed == Errc::cancelled);
  EXPECT_EQ(failed.error().error.text_view(), "to rank 1");
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms);
  EXPECT_EQ(world[0].session->verdicts, 1);
  EXPECT_TRUE(barrier(kLong) == Errc::broken);
}

TEST(BarrierSuspicion, NamesTheRankThatTheSessionTellsAfterwards) {
  World world{3, {.session = true, .detect = kLong}};
  Barrier barrier = world[0].barrier(everyone(3));
  world[0].channel(1).cancel();
  std::jthread coordinator{[&] {
    while (world[0].session->verdicts == 0) std::this_thread::yield();
    world.coordinator.depart({.rank = 2, .why = Departed::connection_ended});
  }};
  EXPECT_TRUE(fails(barrier(kLong), Errc::peer_lost, 2));
}

TEST(BarrierSuspicion, DoesNotTakeLongerThanTheCaller) {
  World world{2, {.session = true, .detect = kLong}};
  Barrier barrier = world[0].barrier(everyone(2));
  world[0].channel(1).cancel();
  EXPECT_TRUE(barrier(5ms) == Errc::timed_out);
  world.coordinator.depart({.rank = 1, .why = Departed::silent});
  EXPECT_TRUE(fails(barrier.wait(kLong), Errc::peer_lost, 1));
}

TEST(BarrierSuspicion, WithoutASessionIsTheError) {
  World world{2};
  Barrier barrier = world[0].barrier(everyone(2));
  world[0].channel(1).canceller().end({.code = Errc::peer_lost, .operation = "test"});
  EXPECT_TRUE(fails(barrier(kLong), Errc::peer_lost, 1));
}

/// The notice is on its way when the peer's queue pair goes, so only the completion shows it.
TEST(BarrierSuspicion, ComesFromANoticeThatIsNotAnswered) {
  WorldOptions options{.session = true, .detect = 50ms};
  options.channel.ack_timeout = require(AckTimeout::at_least(1ms));
  options.channel.max_ack_retries = require(MaxAckRetries::limited(1));
  World world{2, options};
  Barrier barrier = world[0].barrier(everyone(2));
  world[1].channels[0].reset();
  const auto failed = barrier(kLong);
  ASSERT_FALSE(failed.has_value());
  EXPECT_TRUE(failed == Errc::work_failed) << to_string(failed.error());
  EXPECT_EQ(failed.error().error.text_view(), "to rank 1");
}

TEST(BarrierSuspicion, IsFoundByWhoOnlyLooks) {
  WorldOptions options{.session = true, .detect = 20ms};
  options.channel.ack_timeout = require(AckTimeout::at_least(1ms));
  options.channel.max_ack_retries = require(MaxAckRetries::limited(1));
  World world{2, options};
  Barrier barrier = world[0].barrier(everyone(2));
  world[1].channels[0].reset();
  ASSERT_TRUE(succeeds(barrier.arrive()));
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!barrier.ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(barrier.wait(0ns) == Errc::work_failed);
}

TEST(BarrierSuspicion, OfAChannelThatWasTakenAway) {
  World world{2, {.session = true, .detect = 20ms}};
  Barrier barrier = world[0].barrier(everyone(2));
  world[0].group->peers[1].channel = nullptr;
  EXPECT_TRUE(barrier(kLong) == Errc::closed);
}

}  // namespace
}  // namespace verbatim::test
