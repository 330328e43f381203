// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: after kill -9 of a client process with 200 connections under traffic, each coroutine of the
//       server ends with an error within a second, what the process held comes back, and the next
//       clients work.
// Method: a server with one thread; a client process that dials 200 times and asks on all channels
//         at once, and is killed when every connection has had its echoes. 50 times; then the
//         server holds what it held after the second. Of the times that it took the median counts,
//         because the machine may stand still in some of them.
// Covers: channel/driving.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "survival/contained.hpp"
#include "survival/holdings.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"
#include "verbatim/verbatim.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kConnections = 200;
/// Nothing is late before the client is killed, and its death is noticed without the timers.
ChannelOptions shallow(const Reactor& on) {
  return {.on = on,
          .max_sends = 3,
          .max_receives = 3,
          .timeout = kPatience,
          .ack_timeout = require(AckTimeout::at_least(4s))};
}

/// Asks for ever.
Task<void> ask(Channel channel, Buffer question, Buffer answer) {
  for (;;) {
    auto receiving = channel.receive(std::move(answer));
    auto sent = co_await channel.send(std::move(question));
    if (!sent.result) give_up(to_string(sent.result.error()), Where::current());
    auto received = co_await std::move(receiving);
    if (!received.result) give_up(to_string(received.result.error()), Where::current());
    question = std::move(sent.buffer);
    answer = std::move(received.buffer);
  }
}

/// Arguments: the server's address, how many connections.
int play_crowd(const std::vector<std::string>& role) {
  const auto count = static_cast<std::uint32_t>(std::stoul(role.at(2)));
  const ProtectionDomain domain = require(open_context().allocate_domain());
  Reactor reactor = require(Reactor::create(domain));
  Pool pool = require(Pool::create(domain, {.bytes = 64, .count = 2 * count}));
  for (std::uint32_t i = 0; i < count; ++i) {
    auto met = require(dial(domain, role.at(1), {.channel = shallow(reactor)}));
    reactor.spawn(ask(std::move(met.channel), pool.try_take(), pool.try_take()));
  }
  reactor.run();
  return 0;
}
const Role kCrowd{"crowd", &play_crowd};

class ReactorServer {
 public:
  ReactorServer() { reactor_.spawn(accept_all(*this)); }

  /// A client process comes, talks, and is killed.
  void see_one_killed() {
    std::size_t talking = 0;
    talking_ = &talking;
    const auto begin = Clock::now();
    Process crowd = Process::start({"crowd", listener_.address(), std::to_string(kConnections)});
    run_until([&] { return talking == kConnections; }, kPatience);
    ASSERT_EQ(talking, kConnections);
    ASSERT_EQ(failed_, 0u);
    const auto killed = Clock::now();
    crowd.kill();
    run_until([&] { return failed_ == kConnections; }, kPatience);
    EXPECT_EQ(failed_, kConnections);
    // On a slow machine, the end takes longer and so does the beginning.
    lags_.push_back((Clock::now() - killed) - (killed - begin));
    failed_ = 0;
  }
  /// By how much the median of the ends took longer than the beginning before it.
  [[nodiscard]] std::chrono::milliseconds median_lag() {
    const auto middle = lags_.begin() + std::ssize(lags_) / 2;
    std::ranges::nth_element(lags_, middle);
    return std::chrono::ceil<std::chrono::milliseconds>(*middle);
  }
  template <class Condition>
  void run_until(Condition condition, std::chrono::nanoseconds limit) {
    const auto wait = [](Reactor& on, Condition& is_over,
                         Deadline::Clock::time_point end) -> Task<void> {
      while (!is_over() && Clock::now() < end) co_await on.sleep(1ms);  // wait: until it is over
    };
    reactor_.run(wait(reactor_, condition, Clock::now() + limit));
  }

 private:
  static Task<void> accept_all(ReactorServer& self) {
    for (;;) {
      auto met = co_await self.reactor_.accept(self.listener_);
      if (!met) give_up(to_string(met.error()), Where::current());
      self.reactor_.spawn(serve(self, std::move(met->channel), self.pool_.try_take()));
    }
  }
  static Task<void> serve(ReactorServer& self, Channel channel, Buffer buffer) {
    for (int echoes = 0;; ++echoes) {
      auto asked = co_await channel.receive(std::move(buffer));
      if (!asked.result) break;
      auto sent =
          co_await channel.send(std::move(asked.buffer), {.length = *asked.result->byte_count()});
      if (!sent.result) break;
      buffer = std::move(sent.buffer);
      if (echoes == 10) ++*self.talking_;
    }
    ++self.failed_;
  }

  ProtectionDomain domain_ = require(open_context().allocate_domain());
  Pool pool_ = require(Pool::create(domain_, {.bytes = 64, .count = 2 * kConnections}));
  Reactor reactor_ = require(Reactor::create(domain_));
  Listener listener_ =
      require(Listener::open(domain_, "127.0.0.1:0", {.channel = shallow(reactor_)}));
  std::size_t* talking_ = nullptr;
  std::size_t failed_ = 0;
  std::vector<Clock::duration> lags_{};
};

TEST(ReactorKill, ClientWithManyConnectionsTakesNothingAlong) {
  const SoftDirectory directory;
  VERBATIM_CONTAINED(kStuck, [] {
    ReactorServer server;
    server.see_one_killed();
    server.see_one_killed();
    const Holdings early = Holdings::now();
    for (int i = 0; i < 50; ++i) {
      SCOPED_TRACE("client " + std::to_string(i));
      ASSERT_NO_FATAL_FAILURE(server.see_one_killed());
    }
    EXPECT_LE(server.median_lag(), 1s);
    server.run_until([&] { return Holdings::now().is_like(early); }, kPatience);
    EXPECT_TRUE(Holdings::now().is_like(early)) << Holdings::now() << "; it was " << early;
  });
}

}  // namespace
}  // namespace verbatim::test
