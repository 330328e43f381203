// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/coordinator_loop.cpp
#include <atomic>
#include <mutex>

#include "network/session_raw_client.hpp"
#include "network/session_world.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::test {
namespace {

using namespace detail;

/// Collects what the library logs meanwhile.
class Logged {
 public:
  Logged() {
    lines.clear();
    before_ = set_log_sink([](LogLevel, std::string_view line) noexcept {
      const std::lock_guard lock{mutex};
      lines.emplace_back(line);
    });
  }
  ~Logged() { set_log_sink(before_); }
  [[nodiscard]] std::size_t count(std::string_view word) const {
    const std::lock_guard lock{mutex};
    return static_cast<std::size_t>(
        std::ranges::count_if(lines, [&](const std::string& line) { return line.contains(word); }));
  }

 private:
  inline static std::mutex mutex;
  inline static std::vector<std::string> lines;
  LogSink before_;
};

TEST(Strangers, WithAWrongSecretGetAHelloAndNothingElse) {
  const Logged log;
  const World world{2, {.secret = Secret::random()}};
  RawClient client{world.coordinator->port()};
  auto stream = client_stream(Secret::random());
  client.send_from(stream);
  std::array<std::byte, kHelloBytes> hello;
  ASSERT_EQ(recv(client.fd(), hello.data(), hello.size(), MSG_WAITALL), ssize_t{kHelloBytes});
  stream.feed(hello);
  EXPECT_EQ(require(stream.next()), std::nullopt);
  client.say(stream, JoinMessage{.rank = 0, .world = 2});
  const auto rest = client.until_end();
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->size(), 0u);
  // It is logged after it was dropped.
  for (const auto until = RawClient::Clock::now() + kPatience;
       log.count("secret") == 0 && RawClient::Clock::now() < until;)
    std::this_thread::yield();
  EXPECT_EQ(log.count("secret"), 1u);
}

TEST(Strangers, ThatSaySomethingElseGetNothing) {
  const World world{2, {.secret = Secret::random()}};
  for (const std::string_view text :
       {std::string_view{"GET / HTTP/1.1\r\nHost: x\r\n\r\n"}, std::string_view{"\0\0\0\0", 4},
        std::string_view{"VBF1\x01\0\0\0", 8}, std::string_view{"VBN2"}}) {
    RawClient client{world.coordinator->port()};
    client.send(text);
    const auto answer = client.until_end();
    ASSERT_TRUE(answer) << text;
    EXPECT_EQ(answer->size(), 0u) << text;
  }
}

TEST(Strangers, MayNotSendMoreThanAFirstFrameHolds) {
  const World world{2};
  RawClient client{world.coordinator->port()};
  auto stream = client_stream(std::nullopt);
  client.greet(stream);
  stream.send(std::vector<std::byte>(4096));  // Authentic, but too large.
  client.send_from(stream);
  const auto answer = client.until_end();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->size(), 0u);
}

TEST(Strangers, ThatReplayAnotherSessionGetNothing) {
  const Secret secret = Secret::random();
  const World world{2, {.secret = secret}};
  // A join that an attacker recorded...
  RawClient honest{world.coordinator->port()};
  auto stream = client_stream(secret);
  std::vector<std::byte> heard = stream.outgoing();
  honest.greet(stream);
  stream.send(encode(JoinMessage{.rank = 1, .world = 2}));
  heard.insert(heard.end(), stream.outgoing().begin(), stream.outgoing().end());
  honest.send_from(stream);
  static_cast<void>(as<WelcomeMessage>(honest.receive(stream)));
  honest.say(stream, ByeMessage{});
  EXPECT_EQ(honest.receive(stream), std::nullopt);
  // ...and sent again.
  RawClient replay{world.coordinator->port()};
  replay.send(heard);
  const auto answer = replay.until_end();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->size(), kHelloBytes);
}

TEST(Strangers, ThatAreSilentOrSlowGoAfterAWhile) {
  const World world{1, {.handshake_timeout = 100ms}};
  RawClient silent{world.coordinator->port()};
  RawClient half{world.coordinator->port()};
  const auto hello = encode(new_hello(job_id("verbatim")));
  half.send(std::span{hello}.first(30));
  RawClient greeted{world.coordinator->port()};
  greeted.send(hello);  // It does not wait for the answer: on a busy machine it may be too late.
  // A hello, and the longest first frame: at this pace it is over after more than a minute.
  std::vector<std::byte> words{hello.begin(), hello.end()};
  words.resize(kHelloBytes + 24 + 4 + 4096);
  words[kHelloBytes + 24 + 1] = std::byte{4096 >> 8};  // Of its length.
  RawClient drip{world.coordinator->port()};
  const bool is_dropped = std::ranges::any_of(words, [&](const std::byte& each) {
    return !drip.send(std::span{&each, 1}) || drip.until_end(20ms);  // Paces the drip, too.
  });
  EXPECT_TRUE(is_dropped) << "a word now and then buys no time";
  EXPECT_TRUE(silent.until_end());
  EXPECT_TRUE(half.until_end());
  EXPECT_TRUE(greeted.until_end());
}

TEST(Strangers, BeyondTheirNumberPushOutTheOldest) {
  const World world{1, {.max_pending = 4, .handshake_timeout = kPatience}};
  std::vector<RawClient> strangers;
  for (int i = 0; i < 12; ++i) strangers.emplace_back(world.coordinator->port());
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(strangers[static_cast<std::size_t>(i)].until_end()) << i;
  for (std::size_t i = 9; i < 12; ++i) EXPECT_FALSE(strangers[i].until_end(1ms)) << i;
  auto sessions = world.join_all();  // A client that knows the secret need not wait.
  leave_all(sessions);
}

/// Clients of one kind, again and again, until `stop`.
void molest(std::uint16_t port, std::uint32_t kind, const Secret& overheard,
            const std::atomic<bool>& stop) {
  while (!stop) {
    RawClient client{port};
    auto stream = client_stream(Secret::random(), kind == 3 ? "wrong job" : "verbatim");
    switch (kind) {
      case 0:
        client.send(
            "\x7f"
            "ELF garbage garbage garbage garbage garbage garbage garbage!");
        break;
      case 1: client.send("GET / HTTP/1.1\r\nHost: coordinator\r\n\r\n"); break;
      case 2: client.send(encode(Hello{.version = 77})); break;
      case 3: client.send_from(stream); break;
      case 4:  // A wrong secret.
        client.greet(stream);
        client.say(stream, JoinMessage{.rank = 3, .world = 64});
        break;
      case 5:  // Truncated.
        client.send(std::span{stream.outgoing()}.first(40));
        client.hang_up();
        continue;
      case 6: {  // A length that is too large.
        client.greet(stream);
        stream.send(std::vector<std::byte>(100));
        stream.outgoing()[24 + 3] = std::byte{0x7f};
        client.send_from(stream);
        break;
      }
      case 7: {  // The right secret, and then nonsense.
        auto known = client_stream(overheard);
        client.greet(known);
        known.send(std::vector<std::byte>{std::byte{200}, std::byte{1}});
        client.send_from(known);
        break;
      }
      case 8: break;  // Silent.
      default:        // A byte now and then.
        for (const std::byte each : std::vector{stream.outgoing()}) {
          if (stop || !client.send(std::span{&each, 1})) break;
          if (client.until_end(std::chrono::milliseconds{5})) break;
        }
        continue;
    }
    const auto answer = client.until_end(std::chrono::milliseconds{200});
    EXPECT_LE(answer ? answer->size() : 0, kHelloBytes) << "kind " << kind;
  }
}

TEST(Strangers, FortyOfThemBesideSixtyFourRanksChangeNothing) {
  constexpr Rank kWorld = 64;
  const Secret secret = Secret::random();
  // Strangers hang up by themselves. One that waits for a hello must get it, however slow it is.
  const World world{kWorld, {.secret = secret, .handshake_timeout = kPatience}};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> strangers;
  for (std::uint32_t i = 0; i < 40; ++i)
    strangers.emplace_back([&, i] { molest(world.coordinator->port(), i % 10, secret, stop); });
  auto sessions = world.join_all({.timeout = kPatience});
  at_once(kWorld, [&](Rank rank) {
    for (int round = 0; round < 5; ++round) {
      const auto all = require(sessions[rank].exchange(bytes_of(std::to_string(rank)), kPatience));
      for (Rank other = 0; other < kWorld; ++other)
        EXPECT_EQ(all[other], bytes_of(std::to_string(other)));
    }
    EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience)));
    EXPECT_TRUE(sessions[rank].departures().empty());
  });
  leave_all(sessions);
  stop = true;
}

/// A rank that follows the protocol, and then breaks it.
void lost_when_it_says(const Bytes& plaintext) {
  const World world{2};
  RawClient client{world.coordinator->port()};
  auto stream = client_stream(std::nullopt);
  client.greet(stream);
  client.say(stream, JoinMessage{.rank = 1, .world = 2});
  auto session = require(Exchanger::join(world.identity(0), {.timeout = kPatience}));
  stream.send(plaintext);
  client.send_from(stream);
  EXPECT_EQ(require(session.verdict(kPatience)), (Departure{1, Departed::connection_ended}));
}

TEST(Strangers, AmongTheRanksAreLostWhenTheyBreakTheProtocol) {
  for (const Bytes& wrong :
       {Bytes{std::byte{99}}, Bytes{std::byte{5}, std::byte{1}}, encode(PongMessage{}),
        encode(JoinMessage{.rank = 1, .world = 2}), encode(ContributionMessage{Call::meet, 2, {}}),
        encode(AskMessage{.rank = 2}), encode(StateMessage{.rank = 9}),
        encode(RegroupMessage{.generation = 5}), encode(OfferMessage{.to = {{1, {}}, {1, {}}}}),
        encode(OfferMessage{.to = {{2, {}}}})}) {
    SCOPED_TRACE(std::to_integer<int>(wrong[0]));
    lost_when_it_says(wrong);
  }
}

TEST(Strangers, AmongTheRanksThatDoNotReadHoldNobodyUp) {
  const World world{3};
  RawClient client{world.coordinator->port()};
  auto stream = client_stream(std::nullopt);
  client.greet(stream);
  client.say(stream, JoinMessage{.rank = 2, .world = 3});
  std::vector<std::optional<Exchanger>> sessions(2);
  at_once(2, [&](Rank rank) {
    sessions[rank] = require(Exchanger::join(world.identity(rank), {.timeout = kPatience}));
  });
  // It takes part, but reads no answer.
  const std::vector<std::byte> large(7 << 20);
  at_once(2, [&](Rank rank) {
    for (std::uint32_t round = 1; round <= 20; ++round) {
      if (rank == 0) client.say(stream, ContributionMessage{Call::exchange, round, {}});
      const auto all = sessions[rank]->exchange(large, kPatience);
      if (all) continue;
      EXPECT_TRUE(fails_naming(all, Errc::peer_lost, "rank", {.value = 2}));
      EXPECT_EQ(sessions[rank]->departures(), (std::vector<Departure>{{2, Departed::silent}}));
      return;
    }
    ADD_FAILURE() << "the coordinator keeps more than it may";
  });
}

}  // namespace
}  // namespace verbatim::test
