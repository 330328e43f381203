// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/barrier_missing.cpp
//
// Barriers that cannot be created, that time out, or that do not match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "network/barrier_algorithms.hpp"
#include "network/barrier_world.hpp"
#include "support/require.hpp"
#include "support/throwing_contracts.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::vector<Rank> missing(const BarrierResult& result) {
  std::vector<Rank> ranks;
  if (!result)
    for (const RankState& each : result.error().missing) ranks.push_back(each.rank);
  return ranks;
}

/// A wait that times out, and asks the session who is missing. It asks for 250 ms at most, so if
/// this thread had no processor meanwhile, it did not ask everybody, and asks again.
BarrierResult wait_and_ask(Barrier& barrier) {
  for (int again = 0;; ++again) {
    const auto start = std::chrono::steady_clock::now();
    BarrierResult late = barrier.wait(1ms);
    if (std::chrono::steady_clock::now() - start < 250ms || again == 20) return late;
  }
}

// ---- Arguments ----------------------------------------------------------------------------------

TEST(BarrierArguments, AreRefusedWithFieldAndValue) {
  World world{4};
  struct Mistake {
    std::vector<Rank> ranks;
    const char* field;
    std::uint64_t value;
  };
  const std::vector<Mistake> mistakes{
      {{1, 0}, "ranks: not sorted", 0},
      {{0, 2, 1}, "ranks: not sorted", 1},
      {{0, 1, 1}, "ranks: named twice", 1},
      {{0, 4}, "ranks: beyond the world", 4},
      {{0, 4'000'000'000}, "ranks: beyond the world", 4'000'000'000},
      {{1, 2}, "ranks: without our own", 0},
      {{1}, "ranks: without our own", 0},
      {{}, "ranks: without our own", 0}};
  for (const auto algorithm : kAlgorithms)
    for (const Mistake& each : mistakes) {
      const auto made = Barrier::create(*world[0].group, each.ranks, algorithm);
      ASSERT_TRUE(fails_with(made, Errc::invalid_argument));
      EXPECT_STREQ(made.error().field, each.field);
      EXPECT_EQ(made.error().value, each.value);
    }
  // Nothing has changed.
  world.run([&](WorldRank& self) {
    Barrier barrier = self.barrier(everyone(4));
    EXPECT_TRUE(barrier(kLong).has_value());
  });
}

TEST(BarrierArguments, NameAPeerThatIsNotConnected) {
  World world{3};
  world[0].group->peers[1].channel = nullptr;
  const auto made = Barrier::create(*world[0].group, everyone(3), BarrierAlgorithm::dissemination);
  ASSERT_TRUE(fails_with(made, Errc::not_ready));
  EXPECT_EQ(made.error().value, 1u);
  EXPECT_THAT(made.error().field, HasSubstr("connect()"));
  // A rank that it neither notifies nor waits for need not be connected.
  world[2].group->peers[1].channel = nullptr;
  EXPECT_TRUE(
      succeeds(Barrier::create(*world[2].group, everyone(3), BarrierAlgorithm::centralized)));
}

TEST(BarrierArguments, RefuseSlotsThatAreTooShort) {
  World world{2};
  world[1].group->peers[0].slots.length = 64;
  EXPECT_TRUE(fails_with(Barrier::create(*world[1].group, everyone(2)), Errc::incompatible));
}

TEST(BarrierCalls, OutOfOrderAreRefusedAndChangeNothing) {
  World world{3};
  Barrier all = world[0].barrier(everyone(3));
  const Rank some_ranks[] = {0, 2};
  Barrier some = world[0].barrier(some_ranks);
  EXPECT_TRUE(all.wait(0ns) == Errc::not_ready);
  EXPECT_TRUE(all.ready()) << "wait() would return at once";
  ASSERT_TRUE(succeeds(all.arrive()));
  EXPECT_TRUE(fails_with(all.arrive(), Errc::busy));
  EXPECT_TRUE(all(0ns) == Errc::busy);
  EXPECT_TRUE(fails_with(some.arrive(), Errc::busy)) << "it shares rank 2";
  std::jthread one{[&] { EXPECT_TRUE(world[1].barrier(everyone(3))(kLong).has_value()); }};
  std::jthread two{[&] {
    EXPECT_TRUE(world[2].barrier(everyone(3))(kLong).has_value());
    EXPECT_TRUE(world[2].barrier(some_ranks)(kLong).has_value());
  }};
  EXPECT_TRUE(all.wait(kLong).has_value());
  EXPECT_TRUE(some(kLong).has_value());
}

TEST(BarrierCalls, AfterAMoveAreAProgrammingError) {
  World world{2};
  Barrier barrier = world[0].barrier(everyone(2));
  const Barrier moved = std::move(barrier);
  const ThrowingContracts throwing;
  EXPECT_THROW(static_cast<void>(barrier.arrive()), ContractViolation);  // NOLINT: on purpose
  EXPECT_EQ(moved.ranks().size(), 2u);
}

// ---- Time ---------------------------------------------------------------------------------------

TEST(BarrierTimeout, NamesWhoHasNotComeAndLosesNothing) {
  World world{4};
  for (const auto algorithm : kAlgorithms) {
    Barrier root = world[0].barrier(everyone(4), algorithm);
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(succeeds(root.arrive()));
      for (int again = 0; again < 3; ++again) {
        const auto late = root.wait(3ms);
        ASSERT_TRUE(late == Errc::timed_out);
        EXPECT_FALSE(late.error().missing.empty());
        EXPECT_EQ(late.error().error.value, late.error().missing.size());
      }
      std::vector<std::jthread> others;
      for (Rank rank = 1; rank < 4; ++rank)
        others.emplace_back([&world, rank, algorithm] {
          EXPECT_TRUE(world[rank].barrier(everyone(4), algorithm)(kLong).has_value());
        });
      EXPECT_TRUE(root.wait(kLong).has_value());
    }
  }
}

TEST(BarrierTimeout, OfTheRootNamesExactlyTheMissing) {
  World world{5};
  Barrier root = world[0].barrier(everyone(5), BarrierAlgorithm::centralized);
  Barrier came = world[2].barrier(everyone(5), BarrierAlgorithm::centralized);
  ASSERT_TRUE(succeeds(came.arrive()));
  world[2].flush();
  const auto late = root(2ms);
  ASSERT_TRUE(late == Errc::timed_out);
  EXPECT_EQ(missing(late), (std::vector<Rank>{1, 3, 4}));
  EXPECT_EQ(late.error().error.text_view(), "1,3,4");
  EXPECT_EQ(late.error().missing[0].activity, RankState::Activity::unknown);
  EXPECT_THAT(to_string(late.error()), HasSubstr("rank 3 has not come"));
}

/// Nobody names a rank that has come, not even a rank that the missing one would not have notified.
TEST(BarrierTimeout, WithASessionEveryoneNamesTheOneThatIsMissing) {
  for (const auto algorithm : kAlgorithms) {
    World world{5, {.session = true}};
    std::latch waiting{4};  // All have reported that they wait,
    std::latch told{4};     // and nobody stops before all have asked.
    world.run([&](WorldRank& self) {
      if (self.rank == 3) return;
      Barrier barrier = self.barrier(everyone(5), algorithm);
      ASSERT_TRUE(barrier(20ms) == Errc::timed_out);
      waiting.arrive_and_wait();
      const auto late = wait_and_ask(barrier);
      told.arrive_and_wait();
      ASSERT_TRUE(late == Errc::timed_out);
      EXPECT_EQ(missing(late), std::vector<Rank>{3}) << to_string(algorithm);
      EXPECT_EQ(late.error().missing[0].activity, RankState::Activity::elsewhere);
      EXPECT_THAT(to_string(late.error()), HasSubstr("rank 3 waits at no barrier"));
    });
  }
}

TEST(BarrierTimeout, SaysThatTheMissingOneIsAtAnotherBarrier) {
  World world{3, {.session = true}};
  const Rank pair[] = {1, 2};
  Barrier elsewhere = world[1].barrier(pair);
  ASSERT_TRUE(elsewhere(5ms) == Errc::timed_out);
  Barrier barrier = world[0].barrier(std::vector<Rank>{0, 1});
  ASSERT_TRUE(barrier(5ms) == Errc::timed_out);
  const auto late = wait_and_ask(barrier);
  ASSERT_TRUE(late == Errc::timed_out);
  ASSERT_EQ(missing(late), std::vector<Rank>{1});
  EXPECT_EQ(late.error().missing[0].activity, RankState::Activity::at_other);
  EXPECT_GT(late.error().missing[0].waiting, 1ms);
  EXPECT_THAT(to_string(late.error()), HasSubstr("rank 1 waits at another barrier"));
}

TEST(BarrierTimeout, TellsTheSessionOnlyWhenItTakesLong) {
  World world{2, {.session = true}};
  Barrier one = world[0].barrier(everyone(2));
  Barrier two = world[1].barrier(everyone(2));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(succeeds(one.arrive()));
    ASSERT_TRUE(two(kLong).has_value());
    ASSERT_TRUE(one.wait(kLong).has_value());
  }
  EXPECT_EQ(world[0].session->reports, 0);
  ASSERT_TRUE(one(5ms) == Errc::timed_out);
  EXPECT_EQ(world[0].session->reports, 1) << "it waits";
  ASSERT_TRUE(two(kLong).has_value());
  ASSERT_TRUE(one.wait(kLong).has_value());
  EXPECT_EQ(world[0].session->reports, 2) << "it does not wait any more";
}

TEST(BarrierTimeout, OfNothingLooksOnce) {
  World world{2};
  Barrier one = world[0].barrier(everyone(2));
  Barrier two = world[1].barrier(everyone(2));
  ASSERT_TRUE(succeeds(two.arrive()));
  world[1].flush();
  EXPECT_TRUE(one(0ns).has_value());
  world[0].flush();
  EXPECT_TRUE(two.wait(0ns).has_value());
}

// ---- What does not fit --------------------------------------------------------------------------

TEST(BarrierMismatch, OfTheRanksIsTold) {
  World world{3};
  Barrier pair = world[0].barrier(std::vector<Rank>{0, 1});
  Barrier all = world[1].barrier(everyone(3), BarrierAlgorithm::centralized);
  ASSERT_TRUE(succeeds(all.arrive()));
  const auto other = pair(kLong);
  ASSERT_TRUE(other == Errc::incompatible);
  EXPECT_EQ(other.error().error.value, 1u);
  // Nobody knows how far the others are, so barriers with them stay broken.
  EXPECT_TRUE(pair(0ns) == Errc::broken);
  EXPECT_TRUE(world[0].barrier(std::vector<Rank>{0, 2})(0ns) == Errc::timed_out);
}

TEST(BarrierMismatch, OfTheAlgorithmIsTold) {
  World world{2};
  Barrier one = world[0].barrier(everyone(2), BarrierAlgorithm::dissemination);
  Barrier two = world[1].barrier(everyone(2), BarrierAlgorithm::binary_tree);
  ASSERT_TRUE(succeeds(one.arrive()));
  const auto other = two(kLong);
  EXPECT_TRUE(other == Errc::incompatible);
  EXPECT_THAT(to_string(other.error()), HasSubstr("another algorithm"));
}

TEST(BarrierMismatch, IsToldByWaitAlsoWhenItIsFoundEarlier) {
  World world{3};
  Barrier all = world[1].barrier(everyone(3), BarrierAlgorithm::centralized);
  ASSERT_TRUE(succeeds(all.arrive()));
  world[1].flush();
  Barrier pair = world[0].barrier(std::vector<Rank>{0, 1});
  ASSERT_TRUE(succeeds(pair.arrive()));
  EXPECT_TRUE(pair.ready());
  EXPECT_TRUE(fails_with(pair.arrive(), Errc::busy)) << "nobody has heard of it yet";
  EXPECT_TRUE(pair.wait(0ns) == Errc::incompatible);
}

// ---- Lives --------------------------------------------------------------------------------------

TEST(BarrierLife, EndsWithItsGeneration) {
  World world{2};
  Barrier old = world[0].barrier(everyone(2));
  Barrier waiting = world[1].barrier(everyone(2));
  ASSERT_TRUE(succeeds(waiting.arrive()));
  for (Rank rank = 0; rank < 2; ++rank) world[rank].group->begin_generation(2);
  EXPECT_TRUE(old(0ns) == Errc::stale);
  EXPECT_TRUE(fails_with(old.arrive(), Errc::stale));
  EXPECT_TRUE(waiting.ready());
  EXPECT_TRUE(waiting.wait(0ns) == Errc::stale);
  Barrier one = world[0].barrier(everyone(2));
  Barrier two = world[1].barrier(everyone(2));
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE(one(0ns) == Errc::timed_out) << "what was sent before counts no more";
    ASSERT_TRUE(two(kLong).has_value());
    ASSERT_TRUE(one.wait(kLong).has_value());
  }
}

TEST(BarrierLife, AFailedGroupStartsAnewWithTheNextGeneration) {
  World world{2};
  {
    Barrier one = world[0].barrier(everyone(2), BarrierAlgorithm::dissemination);
    Barrier two = world[1].barrier(everyone(2), BarrierAlgorithm::binary_tree);
    ASSERT_TRUE(succeeds(one.arrive()));
    ASSERT_TRUE(two(kLong) == Errc::incompatible);
  }
  for (Rank rank = 0; rank < 2; ++rank) world[rank].group->begin_generation(2);
  Barrier one = world[0].barrier(everyone(2));
  Barrier two = world[1].barrier(everyone(2));
  ASSERT_TRUE(succeeds(one.arrive()));
  EXPECT_TRUE(two(kLong).has_value());
  EXPECT_TRUE(one.wait(kLong).has_value());
}

TEST(BarrierLife, DestroyedWhileOthersWaitBreaksThoseWithTheSameRanks) {
  World world{3};
  {
    Barrier dropped = world[0].barrier(std::vector<Rank>{0, 1});
    ASSERT_TRUE(succeeds(dropped.arrive()));
  }
  Barrier again = world[0].barrier(everyone(3));
  EXPECT_TRUE(fails_with(again.arrive(), Errc::broken));
  Barrier other = world[0].barrier(std::vector<Rank>{0, 2});
  EXPECT_TRUE(succeeds(other.arrive()));
}

TEST(BarrierLife, WithoutItsGroupItIsClosed) {
  std::optional<Barrier> idle;
  std::optional<Barrier> waiting;
  {
    World world{3};
    idle.emplace(world[0].barrier(std::vector<Rank>{0, 1}));
    waiting.emplace(world[0].barrier(std::vector<Rank>{0, 2}));
    ASSERT_TRUE(succeeds(waiting->arrive()));
  }
  EXPECT_TRUE((*idle)(0ns) == Errc::closed);
  EXPECT_TRUE(waiting->ready());
  EXPECT_TRUE(waiting->wait(0ns) == Errc::closed);
}

}  // namespace
}  // namespace verbatim::test
