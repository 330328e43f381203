// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: however a client goes away, the coroutine that serves it learns that, and the others are
//       served as before.
// Method: a server on a reactor, and clients in a separate thread, which meet it at a socket.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "support/completions.hpp"
#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "verbatim/reactor/reactor.hpp"
#include "verbatim/reactor/when_all.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class ReactorClients : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64;

  /// What one client did, as its coroutine saw it.
  struct Seen {
    int messages = 0;
    Error end{.code = Errc::malformed, .operation = "no end"};
  };

  [[nodiscard]] Listener listen(ChannelOptions options = {}) {
    return listen_at(address, std::move(options));
  }
  [[nodiscard]] Listener listen_at(const std::string& where, ChannelOptions options) {
    options.on = reactor;
    return require(Listener::open(domain, where, {.channel = std::move(options)}));
  }
  [[nodiscard]] Channel meet() const { return meet_at(address); }
  [[nodiscard]] Channel meet_at(const std::string& where) const {
    return require(dial(domain, where, {.deadline = kPatience})).channel;
  }
  [[nodiscard]] Buffer memory() const { return require(domain.allocate(kBytes)); }

  static Task<Result<Channel>> accept(Reactor& on, const Listener& listener) {
    auto client = co_await on.accept(listener, kPatience);
    if (!client) co_return std::unexpected(client.error());
    co_return std::move(client->channel);
  }
  /// Receives until the client is gone; with `answers`, each message is sent back.
  static Task<Seen> serve(Channel channel, Buffer buffer, bool answers) {
    Seen seen;
    for (;;) {
      auto got = co_await wait_until(channel.receive(std::move(buffer)), kPatience);
      EXPECT_TRUE(got.buffer);
      if (got.result) {
        ++seen.messages;
        if (answers) got = co_await channel.send(std::move(got.buffer));
      }
      EXPECT_TRUE(got.buffer);
      if (!got.result) {
        seen.end = got.result.error();
        co_return seen;
      }
      buffer = std::move(got.buffer);
    }
  }

  static Task<Result<Seen>> serve_next(Reactor& on, const Listener& listener, Buffer buffer) {
    auto channel = co_await accept(on, listener);
    if (!channel) co_return std::unexpected(channel.error());
    co_return co_await serve(*std::move(channel), std::move(buffer), false);
  }

  Context context = open_context();
  ProtectionDomain domain = require(context.allocate_domain());
  Reactor reactor = require(Reactor::create(domain));
  std::string address = "unix:@verbatim-reactor-clients-" + std::to_string(getpid());
};

TEST_F(ReactorClients, OneThatClosesIsToldAfterWhatItSent) {
  const Listener listener = listen();
  std::atomic<bool> has_closed{false};
  std::jthread client{[&] {
    Channel channel = meet();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(succeeds(channel.send(memory()).wait().result));
    EXPECT_TRUE(succeeds(channel.close(kPatience)));
    has_closed = true;
  }};
  const Seen seen = require(reactor.run(serve_next(reactor, listener, memory())));
  EXPECT_EQ(seen.messages, 3);
  EXPECT_EQ(seen.end, Errc::peer_closed) << to_string(seen.end);
  // The reactor finishes the rest of the end, for which the client waits.
  EXPECT_TRUE(eventually([&] {
    reactor.poll();
    return has_closed.load();
  }));
}

TEST_F(ReactorClients, OneThatGoesWithoutAWordIsLost) {
  const Listener listener = listen();
  std::jthread client{[&] { EXPECT_TRUE(succeeds(meet().send(memory()).wait().result)); }};
  const Seen seen = require(reactor.run(serve_next(reactor, listener, memory())));
  EXPECT_EQ(seen.messages, 1);
  EXPECT_EQ(seen.end, Errc::peer_lost) << to_string(seen.end);
}

TEST_F(ReactorClients, OneThatDoesNotReceiveIsTimedOutAndOthersAreServedOn) {
  // Only the answers to one of them are to be late.
  const std::string impatient = address + "-impatient";
  const Listener hasty = listen_at(impatient, {.timeout = 100ms});
  const Listener listener = listen();
  std::optional<Channel> deaf;
  std::jthread client{[&] {
    deaf = meet_at(impatient);
    Channel other = meet();
    EXPECT_TRUE(succeeds(deaf->send(memory()).wait().result));
    auto receiving = other.receive(memory());
    EXPECT_TRUE(succeeds(other.send(memory()).wait().result));
    EXPECT_TRUE(succeeds(receiving.wait().result));
  }};
  const auto serve_two = [](Reactor& on, const Listener& from, const Listener& then, Buffer one,
                            Buffer two, Seen& first) -> Task<Result<Seen>> {
    auto deaf_one = co_await accept(on, from);
    if (!deaf_one) co_return std::unexpected(deaf_one.error());
    auto good_one = co_await accept(on, then);
    if (!good_one) co_return std::unexpected(good_one.error());
    const auto [late, other] = co_await when_all(serve(*std::move(deaf_one), std::move(one), true),
                                                 serve(*std::move(good_one), std::move(two), true));
    first = late;
    co_return other;
  };
  Seen late;
  const Seen other =
      require(reactor.run(serve_two(reactor, hasty, listener, memory(), memory(), late)));
  EXPECT_EQ(late.messages, 1);
  EXPECT_EQ(late.end, Errc::timed_out) << to_string(late.end);
  EXPECT_EQ(other.messages, 1);
  EXPECT_EQ(other.end, Errc::peer_lost) << to_string(other.end);
}

}  // namespace
}  // namespace verbatim::test
