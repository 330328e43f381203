// SPDX-License-Identifier: MIT OR Apache-2.0
// Covers: network/coordinator.cpp, network/session_dial.cpp, network/loopback.cpp
#include <future>

#include "network/loopback.hpp"
#include "network/session_raw_client.hpp"
#include "network/session_world.hpp"

namespace verbatim::test {
namespace {

using detail::JoinMessage;
using detail::RefusedField;
using detail::RefusedMessage;

TEST(Join, WorksWithASecret) {
  const World world{3, {.secret = Secret::random(), .job = "secret job"}};
  auto sessions = world.join_all();
  at_once(3, [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank].meet(kPatience))); });
  leave_all(sessions);
}

TEST(Join, IsRefusedWithoutTheSecret) {
  const World world{1, {.secret = Secret::random()}};
  Identity identity = world.identity(0);
  for (const auto& secret : {std::optional<Secret>{}, std::optional{Secret::random()}}) {
    identity.secret = secret;
    EXPECT_TRUE(fails_naming(Exchanger::join(identity, {.timeout = kPatience}),
                             Errc::permission_denied, "secret"));
  }
  auto sessions = world.join_all();  // The rank is still free.
  leave_all(sessions);
}

TEST(Join, IsRefusedToAnotherJob) {
  const World world{1};
  Identity identity = world.identity(0);
  identity.job = "another";
  EXPECT_TRUE(
      fails_naming(Exchanger::join(identity, {.timeout = kPatience}), Errc::incompatible, "job"));
}

TEST(Join, ChecksItsOwnArgumentsFirst) {
  const World world{2};
  Identity identity = world.identity(1);
  identity.rank = 2;
  EXPECT_TRUE(fails_naming(Exchanger::join(identity, {}), Errc::invalid_argument, "rank",
                           {.value = 2, .limit = 1}));
  identity = world.identity(1);
  identity.world = 0;
  EXPECT_TRUE(fails_naming(Exchanger::join(identity, {}), Errc::invalid_argument, "world",
                           {.value = 0, .limit = 16384}));
  EXPECT_TRUE(
      fails_naming(Exchanger::join(world.identity(0), {.record = std::vector<std::byte>(513)}),
                   Errc::limit_exceeded, "record", {.value = 513, .limit = 512}));
  EXPECT_TRUE(fails_naming(Exchanger::join(world.identity(0), {.detect = 0ns}),
                           Errc::invalid_argument, "detect"));
  identity = world.identity(0);
  for (const char* const nowhere : {"", " , ", "localhost", "127.0.0.1:99999"}) {
    identity.coordinator = nowhere;
    EXPECT_TRUE(fails_with(Exchanger::join(identity, {}), Errc::invalid_argument)) << nowhere;
  }
}

TEST(Join, NamesWhatTheCoordinatorRefuses) {
  const World world{2};
  Identity identity = world.identity(0);
  identity.world = 3;
  EXPECT_TRUE(fails_naming(Exchanger::join(identity, {}), Errc::incompatible, "world",
                           {.value = 3, .limit = 2}));
  RawClient first{world.coordinator->port()};
  auto stream = client_stream(std::nullopt);
  first.greet(stream);
  first.say(stream, JoinMessage{.rank = 0, .world = 2, .algorithm = 2});
  static_cast<void>(as<detail::WelcomeMessage>(first.receive(stream)));
  EXPECT_TRUE(fails_naming(Exchanger::join(world.identity(0), {.algorithm = 2}), Errc::busy, "rank",
                           {.value = 0, .limit = 1}));
  EXPECT_TRUE(fails_naming(Exchanger::join(world.identity(1), {.algorithm = 3}), Errc::incompatible,
                           "algorithm", {.value = 3, .limit = 2}));
  const auto second = Exchanger::join(world.identity(1), {.algorithm = 2, .timeout = kPatience});
  EXPECT_TRUE(succeeds(second));
  EXPECT_TRUE(fails_naming(Exchanger::join(world.identity(1), {.algorithm = 2}), Errc::busy, "rank",
                           {.value = 1, .limit = 1}));
}

TEST(Join, RefusesARankBeyondTheWorld) {
  const World world{2};
  RawClient client{world.coordinator->port()};
  auto stream = client_stream(std::nullopt);
  client.greet(stream);
  client.say(stream, JoinMessage{.rank = 7, .world = 2});
  const auto refused = as<RefusedMessage>(client.receive(stream));
  EXPECT_EQ(refused.field, RefusedField::rank_beyond);
  EXPECT_EQ(refused.value, 7u);
  EXPECT_EQ(refused.limit, 1u);
  EXPECT_EQ(client.receive(stream), std::nullopt) << "and nothing else";
}

TEST(Join, TellsAnotherVersionWhichOneThisIs) {
  const World world{1};
  RawClient client{world.coordinator->port()};
  const auto hello = encode(detail::Hello{.version = 2});
  ASSERT_TRUE(client.send(hello));
  const auto answer = client.until_end();
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->size(), detail::kHelloBytes);
  EXPECT_TRUE(succeeds(detail::decode_hello(std::span{*answer}.first<detail::kHelloBytes>())));
}

/// A server that gives each client the same answer, and hangs up.
class FakeCoordinator {
 public:
  explicit FakeCoordinator(std::vector<std::byte> answer) : answer_(std::move(answer)) {
    const detail::BoundedCall call{"test", detail::deadline_after(10s)};
    listener_ = require(
        detail::listen_on_any(require(detail::resolve_local({"127.0.0.1", 0}, call)), 8, call));
    address_ = to_string(require(detail::local_address(listener_.get(), "test")));
    thread_ = std::jthread{[this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (!detail::wait_until_ready(listener_.get(), POLLIN,
                                      std::chrono::steady_clock::now() + 10ms))
          continue;
        auto client = require(detail::try_accept(listener_.get(), "test"));
        if (!client) continue;
        ++clients;
        send(client->get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
        shutdown(client->get(), SHUT_WR);
        std::array<std::byte, 256> rest;
        while (detail::wait_until_ready(client->get(), POLLIN,
                                        std::chrono::steady_clock::now() + 5s) &&
               recv(client->get(), rest.data(), rest.size(), 0) > 0) {
        }
      }
    }};
  }
  [[nodiscard]] const std::string& address() const { return address_; }
  std::atomic<int> clients{0};

 private:
  std::vector<std::byte> answer_;
  detail::PrivateDescriptor listener_;
  std::string address_;
  std::jthread thread_;
};

std::vector<std::byte> hello_bytes(const detail::Hello& hello) {
  const auto bytes = encode(hello);
  return {bytes.begin(), bytes.end()};
}

TEST(Join, UnderstandsACoordinatorOfAnotherVersion) {
  const FakeCoordinator other{hello_bytes({.version = 9})};
  const Identity identity{.coordinator = other.address()};
  EXPECT_TRUE(fails_naming(Exchanger::join(identity, {.timeout = kPatience}), Errc::incompatible,
                           "version", {.value = 9, .limit = 1}));
}

TEST(Join, RefusesAServerOfSomethingElse) {
  const FakeCoordinator other{bytes_of("220 smtp.example.org ESMTP\r\n")};
  const Identity identity{.coordinator = other.address()};
  EXPECT_TRUE(fails_with(Exchanger::join(identity, {.timeout = kPatience}), Errc::malformed));
}

TEST(Join, TriesEachAddressInTurn) {
  const World world{1};
  const FakeCoordinator mail{bytes_of("220 smtp.example.org ESMTP\r\n")};
  const FakeCoordinator job{hello_bytes({.job = detail::job_id("another")})};
  const FakeCoordinator nothing{{}};
  Identity identity = world.identity(0);
  identity.coordinator = "no-such-name.invalid:7000, 127.0.0.1:1," + mail.address() + "," +
                         job.address() + ", " + nothing.address() + "," + identity.coordinator;
  auto session = require(Exchanger::join(identity, {.timeout = kPatience}));
  EXPECT_GE(mail.clients.load(), 1);
  EXPECT_GE(job.clients.load(), 1);
  EXPECT_GE(nothing.clients.load(), 1);
  EXPECT_TRUE(succeeds(session.leave(kPatience)));
}

TEST(Join, WaitsForACoordinatorThatComesUpLater) {
  std::string address;
  {
    const World world{1};  // Finds a port that is free afterwards.
    address = world.coordinator->address();
  }
  const Identity identity{.coordinator = address};
  EXPECT_TRUE(fails_with(Exchanger::join(identity, {.timeout = 50ms}), Errc::timed_out));
  std::jthread early{
      [&] { EXPECT_TRUE(succeeds(Exchanger::join(identity, {.timeout = kPatience}))); }};
  // Whether the thread has dialled by now does not matter: both orders are fine.
  const auto coordinator = require(Coordinator::open({.listen = address}));
  early.join();
}

TEST(Join, IsOneClearErrorIfTheNameIsUnknown) {
  const Identity identity{.coordinator = "no-such-name.invalid:7000", .secret = Secret::random()};
  const auto start = std::chrono::steady_clock::now();
  const auto failed = Exchanger::join(identity, {.timeout = 5s});
  ASSERT_FALSE(failed);
  EXPECT_TRUE(failed.error() == Errc::not_found || failed.error() == Errc::timed_out);
  EXPECT_STREQ(failed.error().field, "host");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 15s);
}

TEST(Join, WithoutASecretIsForLoopbackOnly) {
  const Identity identity{.coordinator = "127.0.0.1:7000,192.0.2.1:7000"};
  EXPECT_TRUE(fails_naming(Exchanger::join(identity, {}), Errc::permission_denied, "secret"));
  for (const char* const open : {"0.0.0.0:0", ":0", "[::]:0"})
    EXPECT_TRUE(
        fails_naming(Coordinator::open({.listen = open}), Errc::permission_denied, "secret"))
        << open;
  EXPECT_TRUE(succeeds(Coordinator::open({.listen = "0.0.0.0:0", .secret = Secret::random()})));
  EXPECT_TRUE(succeeds(Coordinator::open({.listen = "localhost:0"})));
}

TEST(Loopback, IsWhatNobodyElseReaches) {
  const detail::BoundedCall call{"test", detail::deadline_after(1s)};
  const auto is_loopback = [&](const char* host) {
    return detail::is_loopback(require(detail::resolve({host, 1}, call)).front());
  };
  for (const char* const host : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* const host : {"128.0.0.1", "0.0.0.0", "192.168.1.1", "::", "::2", "fe80::1",
                                 "::ffff:10.0.0.1", "::127.0.0.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(CoordinatorOptions, AreChecked) {
  EXPECT_TRUE(fails_naming(Coordinator::open({.world = 0}), Errc::invalid_argument, "world",
                           {.value = 0, .limit = 16384}));
  EXPECT_TRUE(fails_naming(Coordinator::open({.world = 16385}), Errc::invalid_argument, "world",
                           {.value = 16385, .limit = 16384}));
  EXPECT_TRUE(fails_with(Coordinator::open({.detect = 0ns}), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(Coordinator::open({.handshake_timeout = -1ns}), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(Coordinator::open({.listen = "127.0.0.1"}), Errc::invalid_argument));
  const auto first = require(Coordinator::open({}));
  EXPECT_TRUE(fails_with(Coordinator::open({.listen = first.address()}), Errc::busy));
  EXPECT_TRUE(fails_with(Coordinator::open({.listen = "192.0.2.1:0", .secret = Secret::random()}),
                         Errc::not_found));
}

TEST(Join, NamesTheRanksThatDidNotCome) {
  const World world{5};
  std::vector<std::optional<Result<Exchanger>>> results(2);
  at_once(2, [&](Rank i) {
    const Identity identity = world.identity(i == 0 ? 1 : 3);
    results[i] = naming([&] { return Exchanger::join(identity, {.timeout = 300ms}); });
  });
  for (const auto& each : results) {
    // The rank that gives up first is missing for the other.
    ASSERT_TRUE(fails_with(*each, Errc::timed_out));
    if (each->error().value == 3) {
      EXPECT_EQ(each->error().text_view(), "0,2,4");
    }
    EXPECT_GE(each->error().value, 3u);
  }
  auto sessions = world.join_all();  // They may come again.
  leave_all(sessions);
}

TEST(Join, EndsForAllWhenOneOfThemDies) {
  const World world{4};
  // Rank 2 comes, and then disappears.
  RawClient client{world.coordinator->port()};
  auto stream = client_stream(std::nullopt);
  client.greet(stream);
  client.say(stream, JoinMessage{.rank = 2, .world = 4});
  static_cast<void>(as<detail::WelcomeMessage>(client.receive(stream)));
  std::jthread early{[&] {
    EXPECT_TRUE(fails_naming(Exchanger::join(world.identity(0), {.timeout = kPatience}),
                             Errc::peer_lost, "rank", {.value = 2}));
  }};
  client.hang_up();
  early.join();
  // A rank that comes later gets the same error, until another process takes the place.
  EXPECT_TRUE(fails_naming(Exchanger::join(world.identity(1), {.timeout = kPatience}),
                           Errc::peer_lost, "rank", {.value = 2}));
  std::promise<Result<Exchanger>> second;
  std::jthread again{
      [&] { second.set_value(Exchanger::join(world.identity(2), {.timeout = kPatience})); }};
  std::vector<std::optional<Exchanger>> sessions(4);
  at_once(4, [&](Rank rank) {
    if (rank == 2) return;
    // Until rank 2 is back, the result is the same as before.
    for (;;) {
      auto joined = Exchanger::join(world.identity(rank), {.timeout = kPatience});
      if (joined) {
        sessions[rank] = *std::move(joined);
        return;
      }
      ASSERT_TRUE(fails_naming(joined, Errc::peer_lost, "rank", {.value = 2}));
    }
  });
  sessions[2] = require(second.get_future().get());
  at_once(4, [&](Rank rank) { EXPECT_TRUE(succeeds(sessions[rank]->leave(kPatience))); });
}

}  // namespace
}  // namespace verbatim::test
