// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel whose device returns nothing ends by force when its flush_timeout is over, and no
//       other channel of its reactor waits for that.
// Method: the null provider, which completes every send and never returns a receive. One channel
//         ends while another one sends all the time: the longest gap between two of its sends is
//         the time it had to wait.
// Covers: channel/driving.cpp
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <utility>

#include "support/gaps.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbatim.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class StubbornDevice : public NullDevice {
 protected:
  static constexpr auto kFlush = 400ms;

  [[nodiscard]] Channel connected() {
    auto prepared = require(PreparedChannel::create(
        domain, {.on = reactor, .max_sends = 7, .max_receives = 7, .flush_timeout = kFlush}));
    const Endpoint self = prepared.endpoint();
    return require(std::move(prepared).connect(self));
  }
  [[nodiscard]] Buffer memory() { return require(domain.allocate(64)); }

  /// Sends until `over`, but for ten seconds at most.
  static Task<void> send_until(Channel& channel, Buffer buffer, const bool& over, Gaps& gaps) {
    const auto end = Clock::now() + 10s;
    while (!over && Clock::now() < end) {
      auto sent = co_await channel.send(std::move(buffer));
      EXPECT_TRUE(succeeds(sent.result));
      buffer = std::move(sent.buffer);
      gaps.tick();
    }
  }
  /// Waits for ten seconds at most.
  template <class Condition>
  Task<void> until(Condition condition) {
    const auto end = Clock::now() + 10s;
    while (!condition() && Clock::now() < end)
      co_await reactor.sleep(1ms);  // wait: for the condition
    EXPECT_TRUE(condition());
  }
  void expect_short(const Gaps& gaps) {
    EXPECT_LE(gaps.longest(), 50ms + stalls.longest())
        << "a thread with nothing to do had to wait " << stalls.longest().count() << " ms";
  }

  void TearDown() override {
    // The reactor finishes the ends of the channels.
    reactor.run(until([this] { return live() == without_channels; }));
    world.reset();
    NullDevice::TearDown();
  }

  struct World {
    explicit World(const Context& context) : domain(require(context.allocate_domain())) {}
    ProtectionDomain domain;
    Reactor reactor = require(Reactor::create(domain));
  };
  std::optional<World> world{std::in_place, open({.events = EventDelivery::manual})};
  ProtectionDomain& domain = world->domain;
  Reactor& reactor = world->reactor;
  const int without_channels = live();
  Stalls stalls;
};

TEST_F(StubbornDevice, DelaysTheEndOfItsChannelAndNoOther) {
  Channel dying = connected();
  Channel living = connected();
  bool over = false;
  Clock::time_point ended;
  const auto start = Clock::now();
  const auto die = [](Channel& channel, Buffer buffer, bool& is_over,
                      Clock::time_point& end) -> Task<void> {
    auto [back, result] = co_await wait_until(channel.receive(std::move(buffer)), 20ms);
    EXPECT_TRUE(fails_with(result, Errc::timed_out));
    EXPECT_TRUE(back);
    end = Clock::now();
    is_over = true;
  };
  Gaps gaps;
  reactor.spawn(die(dying, memory(), over, ended));
  reactor.spawn(send_until(living, memory(), over, gaps));
  reactor.run();
  ASSERT_TRUE(over);
  EXPECT_GE(ended - start, 20ms + kFlush);
  expect_short(gaps);
}

TEST_F(StubbornDevice, DelaysNobodyWhenItsChannelIsDropped) {
  Channel living = connected();
  Buffer message = memory();
  const int with_one = live();
  bool over = false;
  const auto drop = [](Task<void> is_busy, Channel dying, Buffer buffer) -> Task<void> {
    static_cast<void>(dying.receive(std::move(buffer)));
    co_await std::move(is_busy);
  };
  const auto end = [](Task<void> is_gone, bool& is_over) -> Task<void> {
    co_await std::move(is_gone);
    is_over = true;
  };
  Gaps gaps;
  int looks = 0;
  const auto start = Clock::now();
  reactor.spawn(drop(until([&] { return ++looks > 2; }), connected(), memory()));
  reactor.spawn(send_until(living, std::move(message), over, gaps));
  reactor.spawn(end(until([&] { return live() == with_one; }), over));
  reactor.run();
  EXPECT_GE(Clock::now() - start, kFlush);
  expect_short(gaps);
}

}  // namespace
}  // namespace verbatim::test
