// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/membership.cpp, network/round.cpp, network/offers.cpp
#include "network/membership.hpp"

#include <algorithm>
#include <random>
#include <set>

#include "network/session_world.hpp"
#include "support/seed.hpp"

namespace verbatim::test {
namespace {

using namespace detail;

/// Keeps the messages to each client.
class Told final : public MembershipOutput {
 public:
  void send(ClientId client, Bytes plaintext) override {
    EXPECT_FALSE(closed.contains(client)) << "nothing after the last word";
    words[client].push_back(std::move(plaintext));
  }
  void close(ClientId client) override { closed.insert(client); }
  void call_soon() override { ++wishes; }

  [[nodiscard]] std::vector<MessageKind> kinds(ClientId client) {
    std::vector<MessageKind> kinds;
    for (const Bytes& each : words[client]) kinds.push_back(require(kind_of(each)));
    return kinds;
  }
  template <class Message>
  [[nodiscard]] Message last(ClientId client) {
    const Bytes& plaintext = words[client].back();
    EXPECT_EQ(require(kind_of(plaintext)), Message::kKind);
    return require(decode<Message>(std::span{plaintext}.subspan(1)));
  }
  std::map<ClientId, std::vector<Bytes>> words;
  std::set<ClientId> closed;
  int wishes = 0;  ///< How often it asked to be called soon.
};

struct Job {
  explicit Job(Rank world) : membership(world, 5000, told), size(world) {}
  /// Client 100 + rank for each rank.
  void form() {
    for (Rank rank = 0; rank < size; ++rank) join(100 + rank, rank);
    EXPECT_EQ(membership.generation(), 1u);
    told.words.clear();
  }
  void join(ClientId client, Rank rank) { say(client, JoinMessage{.rank = rank, .world = size}); }
  template <class Message>
  void say(ClientId client, const Message& message) {
    EXPECT_TRUE(succeeds(membership.handle(client, encode(message))));
  }
  Told told;
  Membership membership;
  Rank size;
};

TEST(Membership, BeginsWhenAllAreThere) {
  Job job{2};
  job.join(7, 1);
  EXPECT_EQ(job.told.kinds(7), std::vector{MessageKind::welcome});
  job.join(9, 0);
  EXPECT_EQ(job.told.kinds(7), (std::vector{MessageKind::welcome, MessageKind::members}));
  EXPECT_EQ(job.told.kinds(9), (std::vector{MessageKind::welcome, MessageKind::members}));
  EXPECT_EQ(job.told.last<MembersMessage>(9).generation, 1u);
}

TEST(Membership, KnowsNobodyWhoHasNotJoined) {
  Job job{2};
  EXPECT_TRUE(fails_with(job.membership.handle(1, encode(PingMessage{})), Errc::malformed));
  EXPECT_TRUE(fails_with(job.membership.handle(1, {}), Errc::malformed));
  job.join(1, 0);
  EXPECT_TRUE(fails_with(job.membership.handle(1, encode(ContributionMessage{Call::meet, 1, {}})),
                         Errc::malformed))
      << "not all are there";
}

TEST(Membership, GivesEverybodyTheSameAnswerToAFailedCall) {
  Job job{3};
  job.form();
  job.say(100, ContributionMessage{Call::exchange, 1, {}});
  job.say(102, ByeMessage{});  // Before it came to the call.
  const auto first = job.told.last<FailedMessage>(100);
  EXPECT_EQ(first.departure, (Departure{2, Departed::left}));
  job.membership.ended(102, Departed::connection_ended);  // As it does after a goodbye.
  job.say(101, ContributionMessage{Call::exchange, 1, {}});
  EXPECT_EQ(encode(job.told.last<FailedMessage>(101)), encode(first));
  // Both are at the second call now.
  job.say(101, ContributionMessage{Call::meet, 2, {}});
  job.say(100, ContributionMessage{Call::meet, 2, {}});
  EXPECT_EQ(job.told.last<GatheredMessage>(100).sequence, 2u);
}

TEST(Membership, CountsWhatALeaverHadGiven) {
  Job job{3};
  job.form();
  job.say(102, ContributionMessage{Call::exchange, 1, bytes_of("mine")});
  job.say(102, ByeMessage{});
  job.say(100, ContributionMessage{Call::exchange, 1, {}});
  job.say(101, ContributionMessage{Call::exchange, 1, {}});
  EXPECT_EQ(job.told.last<GatheredMessage>(100).by_rank[2], bytes_of("mine"));
}

TEST(Membership, TellsTogetherOfThoseWhoLeaveAndAtOnceOfALoss) {
  Job job{5};
  job.form();
  job.say(100, ByeMessage{});
  job.say(101, ByeMessage{});
  EXPECT_EQ(job.told.wishes, 1);
  EXPECT_TRUE(job.told.kinds(104).empty());
  job.membership.tell_departures();
  EXPECT_EQ(job.told.last<DepartedMessage>(104).departures,
            (std::vector<Departure>{{0, Departed::left}, {1, Departed::left}}));
  EXPECT_TRUE(job.told.kinds(100).empty()) << "it has left";
  job.membership.tell_departures();
  EXPECT_EQ(job.told.kinds(104).size(), 1u) << "once";

  job.say(102, ByeMessage{});
  EXPECT_EQ(job.told.wishes, 2);
  job.membership.ended(103, Departed::silent);
  EXPECT_EQ(job.told.last<DepartedMessage>(104).departures,
            (std::vector<Departure>{{2, Departed::left}, {3, Departed::silent}}));
}

TEST(Membership, TellsWhoHasLeftBeforeWhatFollowsFromIt) {
  Job job{3};
  job.form();
  job.say(100, ContributionMessage{Call::exchange, 1, {}});
  job.say(102, ByeMessage{});
  EXPECT_EQ(job.told.kinds(100), (std::vector{MessageKind::departed, MessageKind::failed}));
  job.say(101, ByeMessage{});
  job.say(100, RegroupMessage{1, {}});
  EXPECT_EQ(job.told.kinds(100), (std::vector{MessageKind::departed, MessageKind::failed,
                                              MessageKind::departed, MessageKind::members}));
}

TEST(Membership, NamesTheFirstLossAlsoWhenItHearsOfItTwice) {
  Job job{4};
  job.join(100, 0);
  job.join(101, 1);
  job.membership.ended(101, Departed::connection_ended);
  job.membership.never_comes(0);  // It ended because of the loss.
  job.membership.never_comes(1);  // The same loss: its process has ended.
  job.join(103, 3);
  EXPECT_EQ(job.told.last<FailedMessage>(103).departure,
            (Departure{1, Departed::connection_ended}));
}

TEST(Membership, ThatEndsBeforeAllCameTellsForWhomItWaited) {
  Job job{4};
  EXPECT_FALSE(job.membership.give_up_forming()) << "nobody is there";
  for (const Rank rank : {0u, 2u, 3u}) job.join(100 + rank, rank);
  job.say(100, ByeMessage{});  // It gave up waiting, and its process hosts the coordinator.
  EXPECT_TRUE(job.membership.give_up_forming());
  for (const ClientId client : {102u, 103u}) {
    EXPECT_EQ(job.told.last<FailedMessage>(client).departure, (Departure{1, Departed::silent}));
    EXPECT_TRUE(job.told.closed.contains(client));
  }
  Job formed{2};
  formed.form();
  EXPECT_FALSE(formed.membership.give_up_forming());
}

TEST(Membership, OwesAnEarlyLossToAllWhoHaveNotHeardOfIt) {
  Job job{4};
  job.join(100, 0);
  EXPECT_FALSE(job.membership.owes_the_loss());
  job.join(101, 1);
  job.membership.ended(101, Departed::connection_ended);
  EXPECT_TRUE(job.membership.owes_the_loss());
  job.join(102, 2);
  EXPECT_TRUE(job.membership.owes_the_loss());
  job.join(103, 3);
  EXPECT_FALSE(job.membership.owes_the_loss());
  Job back{2};
  back.join(100, 0);
  back.membership.ended(100, Departed::connection_ended);
  back.join(101, 0);
  EXPECT_FALSE(back.membership.owes_the_loss()) << "it came back";
}

TEST(Membership, RefusesCallsOutOfStep) {
  Job job{2};
  job.form();
  EXPECT_TRUE(
      fails_naming(job.membership.handle(100, encode(ContributionMessage{Call::meet, 2, {}})),
                   Errc::malformed, "sequence", {.value = 2, .limit = 1}));
  job.say(100, ContributionMessage{Call::meet, 1, {}});
  EXPECT_FALSE(job.membership.handle(100, encode(ContributionMessage{Call::meet, 1, {}})));
  EXPECT_FALSE(job.membership.handle(100, encode(ContributionMessage{Call::meet, 2, {}})))
      << "the first is not over";
  EXPECT_FALSE(job.membership.handle(100, encode(JoinMessage{.rank = 0, .world = 2})));
}

TEST(Membership, MatchesOffersOfAPairInOrder) {
  Job job{2};
  job.form();
  const auto offer = [&](Rank from, std::uint32_t sequence, const char* text) {
    job.say(100 + from, OfferMessage{sequence, {}, {{1 - from, bytes_of(text)}}});
  };
  offer(0, 1, "a1");
  offer(1, 1, "b1");
  offer(1, 2, "b2");
  offer(0, 2, "a2");
  EXPECT_EQ(job.told.last<OffersMessage>(100).from[0].own, bytes_of("b2"));
  EXPECT_EQ(job.told.last<OffersMessage>(101).from[0].own, bytes_of("a2"));
}

TEST(Membership, SaysFarewellWhenTheLastIsGone) {
  Job job{3};
  job.form();
  job.say(100, ByeMessage{});
  EXPECT_FALSE(job.told.closed.contains(100));
  job.membership.ended(102, Departed::silent);
  EXPECT_FALSE(job.membership.is_over());
  job.say(101, ByeMessage{});
  EXPECT_TRUE(job.membership.is_over());
  EXPECT_EQ(job.told.kinds(100).back(), MessageKind::farewell);
  EXPECT_EQ(job.told.kinds(101).back(), MessageKind::farewell);
  EXPECT_EQ(job.told.closed, (std::set<ClientId>{100, 101}));
}

/// Ranks that call meet() again and again, die, leave, come back and regroup, in random order: all
/// live ranks get the same results, and nobody waits for ever.
class Mingling {
 public:
  explicit Mingling(std::uint64_t seed) : random_(seed) { job_.form(); }

  void step() {
    const Rank rank = static_cast<Rank>(random_() % kWorld);
    const int what = static_cast<int>(random_() % 12);
    if (!clients_[rank]) {
      if (what == 0) come_back(rank);
    } else if (what == 0) {
      job_.membership.ended(*std::exchange(clients_[rank], std::nullopt), Departed::silent);
    } else {
      go_on(rank);
    }
    hear();
  }
  /// Causes one more loss and fills all places again; after that all ranks are in the next
  /// generation. If the others had only waited for the rank that was lost, they are there before
  /// the newcomers, and it takes another round.
  void settle() {
    for (int i = 0; i < 2; ++i) {
      const auto seated = std::ranges::find_if(
          clients_, [this](const auto& client) { return client && !views_[*client].lobby; });
      if (seated != clients_.end())
        job_.membership.ended(*std::exchange(*seated, std::nullopt), Departed::silent);
      for (Rank rank = 0; rank < kWorld; ++rank)
        if (!clients_[rank]) come_back(rank);
      hear();
      for (Rank rank = 0; rank < kWorld; ++rank) go_on(rank);
      hear();
    }
    for (Rank rank = 0; rank < kWorld; ++rank) {
      EXPECT_FALSE(views_[*clients_[rank]].lobby);
      EXPECT_EQ(views_[*clients_[rank]].generation, job_.membership.generation());
    }
    EXPECT_GT(job_.membership.generation(), 1u);
  }

 private:
  static constexpr Rank kWorld = 4;
  struct View {
    std::uint32_t generation = 1;
    std::uint32_t sequence = 1;
    bool calling = false;
    bool broken = false;
    bool regrouping = false;
    bool lobby = false;
    std::size_t heard = 0;
  };

  void come_back(Rank rank) {
    clients_[rank] = next_++;
    views_[*clients_[rank]].lobby = true;
    job_.join(*clients_[rank], rank);
  }
  void go_on(Rank rank) {
    View& view = views_[*clients_[rank]];
    if (view.lobby || view.calling || view.regrouping) return;
    if (view.broken) {
      view.regrouping = true;
      job_.say(*clients_[rank], RegroupMessage{.generation = view.generation});
    } else {
      view.calling = true;
      job_.say(*clients_[rank], ContributionMessage{Call::meet, view.sequence, {}});
    }
  }
  void hear() {
    for (const auto& client : clients_) {
      if (!client) continue;
      View& view = views_[*client];
      auto& words = job_.told.words[*client];
      for (; view.heard < words.size(); ++view.heard) {
        const auto body = std::span{words[view.heard]}.subspan(1);
        switch (require(kind_of(words[view.heard]))) {
          case MessageKind::members:
            EXPECT_TRUE(view.lobby || view.regrouping);
            view = {.generation = require(decode<MembersMessage>(body)).generation,
                    .heard = view.heard};
            break;
          case MessageKind::gathered:
            EXPECT_TRUE(view.calling && !view.broken);
            view.calling = false;
            ++view.sequence;
            break;
          case MessageKind::failed:
            EXPECT_TRUE(view.calling && view.broken) << "the loss is told first";
            view.calling = false;
            ++view.sequence;
            break;
          case MessageKind::departed: view.broken = true; break;
          default: break;
        }
      }
    }
  }

  Job job_{kWorld};
  std::mt19937_64 random_;
  ClientId next_ = 1000;
  std::vector<std::optional<ClientId>> clients_{100, 101, 102, 103};
  std::map<ClientId, View> views_{{100, {}}, {101, {}}, {102, {}}, {103, {}}};
};

TEST(Membership, LeavesNobodyWaitingWhateverHappens) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(replay(seed));
  for (std::uint64_t run = 0; run < 200 && !testing::Test::HasFailure(); ++run) {
    SCOPED_TRACE(run);
    Mingling mingling{seed + run};
    for (int i = 0; i < 300; ++i) mingling.step();
    mingling.settle();
  }
}

}  // namespace
}  // namespace verbatim::test
