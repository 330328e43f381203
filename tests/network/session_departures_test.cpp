// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/connection.cpp
#include <poll.h>

#include <mutex>

#include "network/session_world.hpp"

namespace verbatim::test {
namespace {

bool readable(int fd, std::chrono::milliseconds patience) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, static_cast<int>(patience.count())) == 1;
}

TEST(Departures, AreToldToEverybodyInOneOrder) {
  const World world{5};
  auto sessions = world.join_all();
  EXPECT_FALSE(readable(sessions[0].fd(), 0ms));
  lose(sessions, 3);
  for (const Rank rank : {0u, 1u, 2u, 4u})
    EXPECT_EQ(require(sessions[rank].verdict(kPatience)),
              (Departure{3, Departed::connection_ended}));
  lose(sessions, 1);
  const std::vector<Departure> both{{3, Departed::connection_ended},
                                    {1, Departed::connection_ended}};
  for (const Rank rank : {0u, 2u, 4u}) {
    EXPECT_TRUE(readable(sessions[rank].fd(), 60s));
    for (auto until = std::chrono::steady_clock::now() + kPatience;
         sessions[rank].changes() < 2 && std::chrono::steady_clock::now() < until;)
      std::this_thread::yield();
    EXPECT_EQ(sessions[rank].changes(), 2u);
    EXPECT_EQ(sessions[rank].departures(), both);
    EXPECT_FALSE(readable(sessions[rank].fd(), 0ms)) << "it was looked at";
    EXPECT_EQ(require(sessions[rank].verdict(kPatience)), both[0]) << "the first counts";
  }
}

TEST(Departures, EndCollectiveCallsWithTheFirstRankLost) {
  const World world{4};
  auto sessions = world.join_all();
  at_once(4, [&](Rank rank) {
    if (rank == 2) return lose(sessions, 2);
    EXPECT_TRUE(fails_naming(sessions[rank].exchange(bytes_of("x"), kPatience), Errc::peer_lost,
                             "rank", {.value = 2}));
    EXPECT_TRUE(
        fails_naming(sessions[rank].meet(kPatience), Errc::peer_lost, "rank", {.value = 2}));
    const std::vector<PeerRecord> to{{2, {}}};
    EXPECT_TRUE(fails_naming(sessions[rank].offer({}, to, kPatience), Errc::peer_lost, "rank",
                             {.value = 2}));
    EXPECT_TRUE(
        fails_naming(sessions[rank].ask(2, kPatience), Errc::peer_lost, "rank", {.value = 2}));
  });
  // The ranks that are there can still talk in pairs.
  at_once(2, [&](Rank rank) {
    const std::vector<PeerRecord> to{{1 - rank, bytes_of("hello")}};
    EXPECT_TRUE(succeeds(sessions[rank].offer({}, to, kPatience)));
  });
}

TEST(Departures, EndACallThatWaitsForTheRankAlready) {
  const World world{3};
  auto sessions = world.join_all();
  std::jthread waiting{[&] {
    EXPECT_TRUE(fails_naming(sessions[0].meet(kPatience), Errc::peer_lost, "rank", {.value = 2}));
  }};
  std::jthread offering{[&] {
    const std::vector<PeerRecord> to{{2, {}}};
    EXPECT_TRUE(
        fails_naming(sessions[1].offer({}, to, kPatience), Errc::peer_lost, "rank", {.value = 2}));
  }};
  // The coordinator knows both calls by the time it knows whom they miss.
  const auto late = sessions[2].meet(1ms);
  EXPECT_TRUE(fails_with(late, Errc::timed_out));
  lose(sessions, 2);
}

TEST(Departures, InOrderAreHeldAgainstNobody) {
  const World world{3};
  auto sessions = world.join_all();
  EXPECT_TRUE(fails_with(sessions[2].leave(1ms), Errc::timed_out)) << "the others are there";
  at_once(2, [&](Rank rank) {
    EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience))) << "nobody waits for who has left";
    EXPECT_TRUE(fails_naming(sessions[rank].exchange(bytes_of("x"), kPatience), Errc::peer_closed,
                             "rank", {.value = 2}));
    const std::vector<PeerRecord> to{{2, {}}};
    EXPECT_TRUE(fails_naming(sessions[rank].offer({}, to, kPatience), Errc::peer_closed, "rank",
                             {.value = 2}));
    EXPECT_TRUE(
        fails_naming(sessions[rank].ask(2, kPatience), Errc::peer_closed, "rank", {.value = 2}));
    EXPECT_EQ(sessions[rank].departures(), (std::vector<Departure>{{2, Departed::left}}));
    EXPECT_EQ(require(sessions[rank].verdict(1ms)), (Departure{2, Departed::left}));
    EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience))) << "and that breaks nothing";
  });
  EXPECT_TRUE(fails_with(sessions[2].meet(), Errc::closed));
  EXPECT_TRUE(fails_with(sessions[2].exchange(bytes_of("x")), Errc::closed));
  EXPECT_TRUE(fails_with(sessions[2].regroup(kPatience), Errc::closed));
  leave_all(sessions);
}

TEST(Departures, OfSomeoneSuspectedAreWaitedForAWhile) {
  const World world{2};
  auto sessions = world.join_all();
  EXPECT_TRUE(fails_with(sessions[0].verdict(20ms), Errc::timed_out));
  leave_all(sessions);
}

TEST(Departures, CallBackAlsoForWhatIsKnown) {
  const World world{3};
  auto sessions = world.join_all();
  std::mutex mutex;
  std::vector<Departure> heard;
  const auto count = [&] {
    const std::lock_guard lock{mutex};
    return heard.size();
  };
  lose(sessions, 1);
  require(sessions[0].verdict(kPatience));
  sessions[0].on_departure([&](const Departure& departure) {
    const std::lock_guard lock{mutex};
    heard.push_back(departure);
  });
  lose(sessions, 2);
  for (auto until = std::chrono::steady_clock::now() + kPatience;
       count() < 2 && std::chrono::steady_clock::now() < until;)
    std::this_thread::yield();
  EXPECT_EQ(heard, (std::vector<Departure>{{1, Departed::connection_ended},
                                           {2, Departed::connection_ended}}));
}

TEST(Departures, OfTheCoordinatorEndEveryCall) {
  World world{2};
  auto sessions = world.join_all();
  std::jthread waiting{[&] {
    EXPECT_TRUE(fails_naming(sessions[0].meet(kPatience), Errc::peer_lost, "coordinator"));
  }};
  EXPECT_TRUE(fails_with(sessions[1].verdict(10ms), Errc::timed_out));
  world.coordinator.reset();
  EXPECT_EQ(require(sessions[1].verdict(kPatience)), (Departure{kNoRank, Departed::coordinator}));
  const std::vector<PeerRecord> to{{0, {}}};
  EXPECT_TRUE(fails_naming(sessions[1].exchange(bytes_of("x")), Errc::peer_lost, "coordinator"));
  EXPECT_TRUE(fails_naming(sessions[1].meet(), Errc::peer_lost, "coordinator"));
  EXPECT_TRUE(fails_naming(sessions[1].offer({}, to), Errc::peer_lost, "coordinator"));
  EXPECT_TRUE(fails_naming(sessions[1].ask(0, kPatience), Errc::peer_lost, "coordinator"));
  EXPECT_TRUE(fails_naming(sessions[1].regroup(kPatience), Errc::peer_lost, "coordinator"));
  EXPECT_TRUE(fails_naming(sessions[1].leave(kPatience), Errc::peer_lost, "coordinator"));
  // A listener that is set after the end still gets the departure.
  std::atomic<bool> told{false};
  sessions[1].on_departure([&](const Departure&) {
    told = true;
    told.notify_all();
  });
  told.wait(false);
}

TEST(Leaving, EndsWhenEverybodyHasSaidGoodbye) {
  auto world = std::make_optional<World>(8u);
  auto sessions = world->join_all();
  const auto late = naming([&] { return sessions[5].leave(10ms); });
  EXPECT_TRUE(fails_naming(late, Errc::timed_out, "missing", {.value = 7}));
  leave_all(sessions);  // Rank 5 keeps waiting.
  for (Exchanger& each : sessions) EXPECT_TRUE(succeeds(each.leave(kPatience))) << "again";
  EXPECT_TRUE(fails_with(sessions[0].meet(), Errc::closed));
}

TEST(Leaving, DoesNotWaitForTheLost) {
  const World world{3};
  auto sessions = world.join_all();
  std::jthread waiting{[&] { EXPECT_TRUE(succeeds(sessions[0].leave(kPatience))); }};
  std::jthread also{[&] { EXPECT_TRUE(succeeds(sessions[1].leave(kPatience))); }};
  lose(sessions, 2);
}

// The process of rank 0 may end, and its coordinator with it, as soon as its own leave() returns.
TEST(Leaving, OutlivesTheCoordinatorsHost) {
  for (int round = 0; round < 20; ++round) {
    World world{6};
    auto sessions = world.join_all();
    at_once(6, [&](Rank rank) {
      EXPECT_TRUE(succeeds(sessions[rank].leave(kPatience)));
      if (rank == 0) world.coordinator.reset();
    });
  }
}

}  // namespace
}  // namespace verbatim::test
