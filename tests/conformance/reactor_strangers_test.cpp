// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a server with one thread does not wait for clients: neither for those that connect and say
//       nothing, nor for those that ask and never take an answer.
// Method: 50 of each; then a client that behaves asks again and again, and another one comes.
// Covers: reactor/reactor.cpp
#include "verbatim/reactor/reactor.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "conformance/meeting_fixture.hpp"
#include "support/gaps.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class ReactorStrangers : public MeetingTest {
 protected:
  static constexpr std::size_t kMany = 50;
  static constexpr int kEchoes = 200;
  /// Less than the server would wait for a handshake (5 s) or for a message to be taken (10 s), and
  /// more than a machine may be held up.
  static constexpr auto kSoon = 4s;

  ~ReactorStrangers() override {
    reactor.stop();
    serving.join();
  }
  [[nodiscard]] ChannelOptions shallow() const {
    // The last messages of clients that never read do not arrive, and nothing should wait for them.
    return {.max_sends = 3, .max_receives = 3, .flush_timeout = 10ms};
  }
  [[nodiscard]] ListenOptions options() const {
    ListenOptions options{.channel = shallow()};
    options.channel.on = reactor;
    return options;
  }
  [[nodiscard]] Channel client() {
    return std::move(
        require(dial(domain, listener.address(), {.deadline = kPatience, .channel = shallow()}))
            .channel);
  }
  /// The longest time that one of kEchoes echoes took.
  [[nodiscard]] std::chrono::milliseconds ask(Channel& channel) {
    Gaps gaps;
    for (int i = 0; i < kEchoes; ++i) {
      auto receiving = channel.receive(empty(64));
      EXPECT_TRUE(succeeds(channel.send(filled(64, seed)).wait().result));
      auto [answer, result] = receiving.wait();
      EXPECT_TRUE(succeeds(result) && holds(answer.bytes(), seed));
      gaps.tick();
    }
    return gaps.longest();
  }
  static Task<void> accept_all(ReactorStrangers& self) {
    for (;;) {
      auto met = co_await self.reactor.accept(self.listener);
      if (!met) co_return;
      self.reactor.spawn(serve(std::move(met->channel), self.empty(64)));
    }
  }
  static Task<void> serve(Channel channel, Buffer buffer) {
    for (;;) {
      auto asked = co_await channel.receive(std::move(buffer));
      if (!asked.result) co_return;
      auto sent =
          co_await channel.send(std::move(asked.buffer), {.length = *asked.result->byte_count()});
      if (!sent.result) co_return;
      buffer = std::move(sent.buffer);
    }
  }

  Reactor reactor = require(Reactor::create(domain));
  Listener listener = require(Listener::open(domain, "127.0.0.1:0", options()));
  std::jthread serving{[this] {
    reactor.spawn(accept_all(*this));
    reactor.run();
  }};
};

TEST_F(ReactorStrangers, WhoSayNothingOrNeverReadDelayNobody) {
  Channel early = client();
  std::vector<Stranger> silent;
  for (std::size_t i = 0; i < kMany; ++i) silent.emplace_back(listener.port());
  std::vector<Channel> deaf;
  for (std::size_t i = 0; i < kMany; ++i) {
    deaf.push_back(client());
    // The second one is taken only if the server could answer the first, which it never can.
    EXPECT_TRUE(succeeds(deaf.back().send(filled(64, seed)).wait().result));
    static_cast<void>(deaf.back().send(filled(64, seed)));
  }
  EXPECT_LE(ask(early), kSoon);
  const auto start = Clock::now();
  Channel late = client();
  EXPECT_LE(Clock::now() - start, kSoon);
  EXPECT_LE(ask(late), kSoon);
}

}  // namespace
}  // namespace verbatim::test
