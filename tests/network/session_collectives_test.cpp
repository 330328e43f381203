// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/session.cpp, network/session_calls.cpp, network/exchanger.cpp, network/host.cpp
#include <atomic>
#include <numeric>

#include "network/session_world.hpp"

namespace verbatim::test {
namespace {

TEST(Session, TellsEverybodyWhoIsThere) {
  const World world{3};
  auto sessions = world.join_all();
  for (Rank rank = 0; rank < 3; ++rank) {
    const Exchanger& session = sessions[rank];
    EXPECT_EQ(session.rank(), rank);
    EXPECT_EQ(session.world(), 3u);
    EXPECT_EQ(session.generation(), 1u);
    ASSERT_EQ(session.members().size(), 3u);
    for (Rank other = 0; other < 3; ++other) {
      const Member& member = session.members()[other];
      EXPECT_TRUE(member.present);
      EXPECT_EQ(member.rank, other);
      EXPECT_EQ(member.record, bytes_of(std::to_string(other)));
      EXPECT_GE(member.processors, 1);
      EXPECT_NE(member.host_high | member.host_low, 0u);
      EXPECT_EQ(member.host_high, sessions[0].members()[0].host_high) << "one machine";
    }
    EXPECT_EQ(session.changes(), 0u);
    EXPECT_TRUE(session.departures().empty());
  }
  leave_all(sessions);
}

TEST(Session, OfAWorldOfOneNeedsNobody) {
  const World world{1};
  auto sessions = world.join_all();
  EXPECT_EQ(require(sessions[0].exchange(bytes_of("alone"))),
            std::vector<std::vector<std::byte>>{bytes_of("alone")});
  EXPECT_TRUE(succeeds(sessions[0].meet()));
  EXPECT_TRUE(succeeds(sessions[0].regroup(kPatience)));
  EXPECT_EQ(sessions[0].generation(), 2u);
  leave_all(sessions);
}

TEST(Session, ExchangesByRankAnyNumberOfTimes) {
  const World world{4};
  auto sessions = world.join_all();
  at_once(4, [&](Rank rank) {
    for (int round = 0; round < 20; ++round) {
      const auto said = [&](Rank who) {
        return bytes_of(std::string(who, 'x') + std::to_string(round));
      };
      const auto all = require(sessions[rank].exchange(said(rank), kPatience));
      ASSERT_EQ(all.size(), 4u);
      for (Rank other = 0; other < 4; ++other) EXPECT_EQ(all[other], said(other));
    }
  });
  leave_all(sessions);
}

struct Plain {
  std::uint64_t number = 0;
  std::uint32_t other = 0;
};

TEST(Session, ExchangesPlainDataAndRefusesAnotherSize) {
  const World world{2};
  auto sessions = world.join_all();
  at_once(2, [&](Rank rank) {
    const auto all =
        require(sessions[rank].exchange(Plain{.number = 100 + rank, .other = rank}, kPatience));
    EXPECT_EQ(all[0].number, 100u);
    EXPECT_EQ(all[1].number, 101u);
  });
  at_once(2, [&](Rank rank) {
    if (rank == 0)
      EXPECT_TRUE(fails_naming(sessions[0].exchange(Plain{}, kPatience), Errc::incompatible, "size",
                               {.value = 3, .limit = sizeof(Plain)}));
    else
      EXPECT_TRUE(succeeds(sessions[1].exchange(bytes_of("abc"), kPatience)));
  });
  leave_all(sessions);
}

TEST(Session, CarriesMegabytes) {
  const World world{3};
  auto sessions = world.join_all();
  std::vector<std::byte> large(4 << 20);
  std::ranges::generate(large, [n = 0]() mutable { return static_cast<std::byte>(++n * 7); });
  at_once(3, [&](Rank rank) {
    const auto all = require(sessions[rank].exchange(large, kPatience));
    for (const auto& each : all) EXPECT_TRUE(each == large);
  });
  leave_all(sessions);
}

TEST(Session, RefusesMoreThanAFrameHolds) {
  const World world{2};
  auto sessions = world.join_all();
  const std::vector<std::byte> most(15 << 20);
  EXPECT_TRUE(fails_naming(sessions[0].exchange(std::vector<std::byte>(most.size() + 1)),
                           Errc::limit_exceeded, "bytes",
                           {.value = most.size() + 1, .limit = most.size()}));
  at_once(2, [&](Rank rank) {
    EXPECT_TRUE(fails_naming(sessions[rank].exchange(most, kPatience), Errc::limit_exceeded,
                             "bytes of all ranks",
                             {.value = 2 * most.size(), .limit = most.size()}));
  });
  // The session continues.
  at_once(2, [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience))); });
  leave_all(sessions);
}

TEST(Session, MeetsWhenTheLastHasCome) {
  const World world{3};
  auto sessions = world.join_all();
  std::atomic<int> came{0};
  at_once(3, [&](Rank rank) {
    for (int round = 1; round <= 50; ++round) {
      ++came;
      EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience)));
      EXPECT_GE(came.load(), 3 * round);
      EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience)));
    }
  });
  leave_all(sessions);
}

TEST(Session, NamesWhoIsLateAndGoesOn) {
  const World world{4};
  auto sessions = world.join_all();
  at_once(2, [&](Rank i) {
    const Rank rank = i == 0 ? 0 : 2;
    const auto late = sessions[rank].exchange(bytes_of("first"), 100ms);
    ASSERT_TRUE(fails_naming(late, Errc::timed_out, "missing", {.value = late.error().value}));
    if (late.error().value == 2) {
      EXPECT_EQ(late.error().text_view(), "1,3");
    }
  });
  // Another call would be out of step.
  EXPECT_TRUE(fails_with(sessions[0].meet(1ms), Errc::busy));
  at_once(4, [&](Rank rank) {
    const auto all = require(sessions[rank].exchange(bytes_of("second"), kPatience));
    EXPECT_EQ(all[0], bytes_of("first")) << "what was given first counts";
    EXPECT_EQ(all[1], bytes_of("second"));
    EXPECT_EQ(all[2], bytes_of("first"));
  });
  at_once(4, [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience))); });
  leave_all(sessions);
}

TEST(Session, NamesThoseOfManyThatFit) {
  const World world{40};
  auto sessions = world.join_all();
  const auto late = naming([&] { return sessions[0].meet(50ms); });
  ASSERT_TRUE(fails_naming(late, Errc::timed_out, "missing", {.value = 39}));
  EXPECT_EQ(late.error().text_view(), "1,2,3,4,5,6,7,8,9,...");
}

TEST(Session, FindsRanksThatCallDifferentThings) {
  const World world{3};
  auto sessions = world.join_all();
  at_once(3, [&](Rank rank) {
    if (rank == 1)
      EXPECT_TRUE(fails_with(sessions[1].exchange(bytes_of("x"), kPatience), Errc::incompatible));
    else
      EXPECT_TRUE(fails_with(sessions[rank].meet(kPatience), Errc::incompatible));
  });
  at_once(3, [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience))); });
  leave_all(sessions);
}

TEST(Session, CarriesOffersToThoseNamed) {
  const World world{4};
  auto sessions = world.join_all();
  const auto offer = [&](Rank from, std::vector<Rank> to) {
    std::vector<PeerRecord> records;
    for (const Rank peer : to)
      records.push_back({peer, bytes_of(std::to_string(from) + ">" + std::to_string(peer))});
    return sessions[from].offer(bytes_of("of " + std::to_string(from)), records, kPatience);
  };
  // A ring, in the order named; 3 also offers to itself.
  const std::vector<std::vector<Rank>> wanted{{3, 1}, {2, 0}, {1, 3}, {0, 3, 2}};
  at_once(4, [&](Rank rank) {
    const auto offers = require(offer(rank, wanted[rank]));
    ASSERT_EQ(offers.size(), wanted[rank].size());
    for (std::size_t i = 0; i < offers.size(); ++i) {
      const Rank peer = wanted[rank][i];
      EXPECT_EQ(offers[i].rank, peer);
      EXPECT_EQ(offers[i].common, bytes_of("of " + std::to_string(peer)));
      EXPECT_EQ(offers[i].own, bytes_of(std::to_string(peer) + ">" + std::to_string(rank)));
    }
  });
  // Two of them again; and an offer to nobody.
  at_once(2, [&](Rank rank) { EXPECT_TRUE(succeeds(offer(rank, {1 - rank}))); });
  EXPECT_EQ(require(offer(2, {})).size(), 0u);
  leave_all(sessions);
}

TEST(Session, NamesWhoHasNotOfferedAndGoesOn) {
  const World world{3};
  auto sessions = world.join_all();
  const std::vector<PeerRecord> both{{1, {}}, {2, {}}};
  const std::vector<PeerRecord> to_first{{0, {}}};
  const auto late = naming([&] { return sessions[0].offer({}, both, 50ms); });
  ASSERT_TRUE(fails_naming(late, Errc::timed_out, "missing", {.value = 2}));
  EXPECT_EQ(late.error().text_view(), "1,2");
  EXPECT_TRUE(fails_with(sessions[0].offer({}, {}, 1ms), Errc::busy));
  at_once(3, [&](Rank rank) {
    EXPECT_TRUE(succeeds(sessions[rank].offer({}, rank == 0 ? both : to_first, kPatience)));
  });
  leave_all(sessions);
}

TEST(Session, RefusesOffersThatCannotBe) {
  const World world{2};
  auto sessions = world.join_all();
  const std::vector<PeerRecord> beyond{{2, {}}};
  EXPECT_TRUE(fails_naming(sessions[0].offer({}, beyond), Errc::invalid_argument, "rank",
                           {.value = 2, .limit = 1}));
  const std::vector<PeerRecord> twice{{1, {}}, {1, {}}};
  EXPECT_TRUE(
      fails_naming(sessions[0].offer({}, twice), Errc::invalid_argument, "twice", {.value = 1}));
  EXPECT_TRUE(fails_naming(sessions[0].offer(std::vector<std::byte>(513), {}), Errc::limit_exceeded,
                           "common", {.value = 513, .limit = 512}));
  const std::vector<PeerRecord> large{{1, std::vector<std::byte>(257)}};
  EXPECT_TRUE(fails_naming(sessions[0].offer({}, large), Errc::limit_exceeded, "own",
                           {.value = 257, .limit = 256}));
  leave_all(sessions);
}

TEST(Session, AnswersForARankThatIsBusy) {
  const World world{2};
  auto sessions = world.join_all();
  EXPECT_TRUE(require(sessions[0].ask(1, kPatience)).empty());
  require(sessions[1].report(bytes_of("in barrier 7")));  // And does nothing more.
  EXPECT_EQ(require(sessions[0].ask(1, kPatience)), bytes_of("in barrier 7"));
  EXPECT_EQ(require(sessions[1].ask(1, kPatience)), bytes_of("in barrier 7"));
  EXPECT_TRUE(fails_naming(sessions[0].ask(2, kPatience), Errc::invalid_argument, "rank",
                           {.value = 2, .limit = 1}));
  EXPECT_TRUE(fails_naming(sessions[0].report(std::vector<std::byte>(257)), Errc::limit_exceeded,
                           "state", {.value = 257, .limit = 256}));
  leave_all(sessions);
}

TEST(Session, StaysWithinItsBytes) {
  constexpr Rank kWorld = 64;
  const World world{kWorld};
  auto sessions = world.join_all({.record = std::vector<std::byte>(24)});
  at_once(kWorld, [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience))); });
  for (const Exchanger& each : sessions) EXPECT_LE(each.bytes(), 1024u + 128u * kWorld);
  at_once(kWorld, [&](Rank rank) {
    std::vector<PeerRecord> to;
    for (Rank peer = 0; peer < kWorld; ++peer) to.push_back({peer, std::vector<std::byte>(16)});
    EXPECT_TRUE(succeeds(sessions[rank].offer(std::vector<std::byte>(120), to, kPatience)));
  });
  leave_all(sessions);
  for (const Exchanger& each : sessions) {
    EXPECT_LE(each.bytes(), 1024u + 320u * kWorld);
    EXPECT_GT(each.bytes(), 120u * kWorld) << "it does count";
  }
}

}  // namespace
}  // namespace verbatim::test
