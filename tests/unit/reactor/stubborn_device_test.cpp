// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel whose device returns nothing ends by force when its flush_timeout is over, and no
//       other channel of its reactor waits for that.
// Method: the null provider, which completes every send and never returns a receive. One channel
//         ends while another one sends all the time, and counts the sends that are over before that
//         end is. A reactor that waits for the end lets it do none, whatever the machine does.
// Covers: channel/driving.cpp
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "support/null_device.hpp"
#include "verbatim/verbatim.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class StubbornDevice : public NullDevice {
 protected:
  static constexpr auto kFlush = 400ms;
  static constexpr auto kLong = 30s;

  [[nodiscard]] Channel connected() {
    auto prepared = require(PreparedChannel::create(
        domain, {.on = reactor, .max_sends = 7, .max_receives = 7, .flush_timeout = kFlush}));
    const Endpoint self = prepared.endpoint();
    return require(std::move(prepared).connect(self));
  }
  [[nodiscard]] Buffer memory() { return require(domain.allocate(64)); }

  /// Sends until `over`, but for kLong at most. Counts the sends while the end of the other channel
  /// has begun and is not over.
  template <class Condition>
  static Task<void> send_until(Channel& channel, Buffer buffer, const bool& over,
                               Condition other_is_ending, std::size_t& meanwhile) {
    const auto end = Clock::now() + kLong;
    while (!over && Clock::now() < end) {
      auto sent = co_await channel.send(std::move(buffer));
      EXPECT_TRUE(succeeds(sent.result));
      buffer = std::move(sent.buffer);
      if (other_is_ending()) ++meanwhile;
    }
  }
  /// Waits for kLong at most.
  template <class Condition>
  Task<void> until(Condition condition) {
    const auto end = Clock::now() + kLong;
    while (!condition() && Clock::now() < end)
      co_await reactor.sleep(1ms);  // wait: for the condition
    EXPECT_TRUE(condition());
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
  std::size_t meanwhile = 0;
  const auto is_ending = [&] { return dying.cause() && !dying.is_over(); };
  reactor.spawn(die(dying, memory(), over, ended));
  reactor.spawn(send_until(living, memory(), over, is_ending, meanwhile));
  reactor.run();
  ASSERT_TRUE(over);
  EXPECT_GE(ended - start, 20ms + kFlush);
  EXPECT_GT(meanwhile, 0u) << "it waited for the other channel";
}

TEST_F(StubbornDevice, DelaysNobodyWhenItsChannelIsDropped) {
  Channel living = connected();
  Buffer message = memory();
  const int with_one = live();
  bool over = false;
  bool dropped = false;
  const auto drop = [](Task<void> is_busy, Channel dying, Buffer buffer,
                       bool& is_dropped) -> Task<void> {
    static_cast<void>(dying.receive(std::move(buffer)));
    co_await std::move(is_busy);
    is_dropped = true;  // Now, with this coroutine.
  };
  const auto end = [](Task<void> is_gone, bool& is_over) -> Task<void> {
    co_await std::move(is_gone);
    is_over = true;
  };
  std::size_t meanwhile = 0;
  const auto is_ending = [&] { return dropped && live() != with_one; };
  int looks = 0;
  const auto start = Clock::now();
  reactor.spawn(drop(until([&] { return ++looks > 2; }), connected(), memory(), dropped));
  reactor.spawn(send_until(living, std::move(message), over, is_ending, meanwhile));
  reactor.spawn(end(until([&] { return live() == with_one; }), over));
  reactor.run();
  EXPECT_GE(Clock::now() - start, kFlush);
  EXPECT_GT(meanwhile, 0u) << "it waited for the other channel";
}

}  // namespace
}  // namespace verbatim::test
