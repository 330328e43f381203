// SPDX-License-Identifier: MIT OR Apache-2.0
#include <future>

#include "network/session_world.hpp"

namespace verbatim::test {
namespace {

std::vector<bool> presence(const Exchanger& session) {
  std::vector<bool> present;
  for (const Member& each : session.members()) present.push_back(each.present);
  return present;
}

TEST(Regroup, GoesOnWithTheSurvivors) {
  const World world{4};
  auto sessions = world.join_all();
  lose(sessions, 1);
  const std::vector<Rank> survivors{0, 2, 3};
  at_once(3, [&](Rank i) {
    Exchanger& session = sessions[survivors[i]];
    EXPECT_TRUE(fails_with(session.meet(kPatience), Errc::peer_lost));
    EXPECT_TRUE(
        succeeds(session.regroup(kPatience, survivors[i] == 2 ? bytes_of("new") : bytes_of(""))));
    EXPECT_EQ(session.generation(), 2u);
    EXPECT_EQ(presence(session), (std::vector<bool>{true, false, true, true}));
    EXPECT_EQ(session.members()[2].record, bytes_of("new"));
    EXPECT_EQ(session.members()[3].record, bytes_of("3")) << "as it was";
    EXPECT_TRUE(session.departures().empty()) << "those of this generation";
    const auto all = require(session.exchange(bytes_of(std::to_string(session.rank())), kPatience));
    EXPECT_EQ(all[0], bytes_of("0"));
    EXPECT_TRUE(all[1].empty());
    EXPECT_EQ(all[3], bytes_of("3"));
    EXPECT_TRUE(succeeds(session.meet(kPatience)));
    const std::vector<PeerRecord> to{{1, {}}};
    EXPECT_TRUE(
        fails_naming(session.offer({}, to, kPatience), Errc::peer_lost, "rank", {.value = 1}));
    EXPECT_TRUE(fails_naming(session.ask(1, kPatience), Errc::peer_lost, "rank", {.value = 1}));
    EXPECT_TRUE(succeeds(session.leave(kPatience)));
  });
}

TEST(Regroup, TakesInWhoTookALostRanksPlace) {
  const World world{3};
  auto sessions = world.join_all();
  lose(sessions, 2);
  auto lobby = std::async(std::launch::async, [&] {
    return Exchanger::join(world.identity(2), {.record = bytes_of("again")});
  });
  at_once(2, [&](Rank rank) {
    // It may be too late for the first one. All see the same members, and continue together.
    do require(sessions[rank].regroup(kPatience));
    while (!sessions[rank].members()[2].present);
    EXPECT_EQ(sessions[rank].members()[2].record, bytes_of("again"));
    EXPECT_TRUE(sessions[rank].members()[2].present);
  });
  sessions[2] = require(lobby.get());
  EXPECT_EQ(sessions[2].generation(), sessions[0].generation());
  EXPECT_EQ(sessions[2].members()[0].record, bytes_of("0"));
  at_once(3, [&](Rank rank) {
    const auto all = require(sessions[rank].exchange(bytes_of(std::to_string(rank)), kPatience));
    EXPECT_EQ(all[2], bytes_of("2"));
  });
  leave_all(sessions);
}

TEST(Regroup, NamesWhoHasNotAskedForIt) {
  const World world{4};
  auto sessions = world.join_all();
  lose(sessions, 0);
  require(sessions[1].verdict(kPatience));
  const auto late = naming([&] { return sessions[1].regroup(20ms); });
  ASSERT_TRUE(fails_naming(late, Errc::timed_out, "missing", {.value = 2}));
  EXPECT_EQ(late.error().text_view(), "2,3");
  EXPECT_TRUE(fails_with(sessions[1].meet(1ms), Errc::busy)) << "until it is over";
  // A rank that waits in the lobby gets the same error.
  const auto waiting =
      naming([&] { return Exchanger::join(world.identity(0), {.timeout = 50ms}); });
  ASSERT_TRUE(fails_naming(waiting, Errc::timed_out, "missing", {.value = 2}));
  at_once(3, [&](Rank i) { EXPECT_TRUE(succeeds(sessions[i + 1].regroup(kPatience))); });
  for (Rank rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(sessions[rank].generation(), 2u);
    EXPECT_FALSE(sessions[rank].members()[0].present) << "it gave up";
  }
}

TEST(Regroup, DoesNotWaitForWhoGoesMeanwhile) {
  const World world{4};
  auto sessions = world.join_all();
  lose(sessions, 3);
  std::jthread second{[&] { EXPECT_TRUE(succeeds(sessions[1].regroup(kPatience))); }};
  EXPECT_TRUE(fails_with(sessions[0].regroup(20ms), Errc::timed_out));
  lose(sessions, 2);
  EXPECT_TRUE(succeeds(sessions[0].regroup(kPatience)));
  EXPECT_EQ(presence(sessions[0]), (std::vector<bool>{true, true, false, false}));
}

TEST(Regroup, ForgetsCallsOfTheFormerGeneration) {
  const World world{3};
  auto sessions = world.join_all();
  // Rank 0 is ahead of the others by an exchange and an offer.
  EXPECT_TRUE(fails_with(sessions[0].exchange(bytes_of("old"), 10ms), Errc::timed_out));
  const std::vector<PeerRecord> to_second{{1, bytes_of("old")}};
  EXPECT_TRUE(fails_with(sessions[0].offer({}, to_second, 10ms), Errc::timed_out));
  at_once(3, [&](Rank rank) {
    EXPECT_TRUE(succeeds(sessions[rank].regroup(kPatience)));
    EXPECT_EQ(require(sessions[rank].exchange(bytes_of("new"), kPatience))[0], bytes_of("new"));
  });
  at_once(2, [&](Rank rank) {
    const std::vector<PeerRecord> to{{1 - rank, bytes_of("new")}};
    EXPECT_EQ(require(sessions[rank].offer({}, to, kPatience))[0].own, bytes_of("new"));
  });
  leave_all(sessions);
}

TEST(Regroup, HappensAgainAndAgain) {
  const World world{3};
  auto sessions = world.join_all();
  for (Rank round = 0; round < 10; ++round) {
    const Rank victim = round % 3;
    lose(sessions, victim);
    std::jthread restarted{[&] {
      sessions[victim] = require(Exchanger::join(world.identity(victim), {.timeout = kPatience}));
    }};
    at_once(2, [&](Rank i) {
      Exchanger& session = sessions[(victim + 1 + i) % 3];
      EXPECT_TRUE(fails_with(session.meet(kPatience), Errc::peer_lost));
      // If the new process comes after the first regroup, there is another one.
      do require(session.regroup(kPatience));
      while (!session.members()[victim].present);
    });
  }
  leave_all(sessions);
}

TEST(Regroup, FormsAWorldAgainAfterAllWereLost) {
  const World world{2};
  {
    auto sessions = world.join_all();
  }
  auto sessions = world.join_all();
  EXPECT_EQ(sessions[0].generation(), 2u);
  leave_all(sessions);
}

}  // namespace
}  // namespace verbatim::test
