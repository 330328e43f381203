// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: in a forked child, every use of a channel fails with `forked` at once, and the parent's
//       channel is not affected.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "conformance/connected_channels.hpp"
#include "support/forked_child.hpp"

namespace verbatim::test {
namespace {

class ChannelFork : public ConnectedChannels {};

TEST_F(ChannelFork, EveryUseInTheChildIsForked) {
  if (is_on_reactor()) GTEST_SKIP() << "the Reactor has one descriptor for all";
  const int fd = require(left.fd());
  Buffer memory = filled(kPiece, seed);
  auto in_flight = left.receive(empty(kPiece));
  auto arrived = right.receive(empty(kPiece));
  auto sending = left.send(filled(kPiece, seed));
  pollfd source{.fd = fd, .events = POLLIN, .revents = 0};
  // The event of the send may come later than its completion, so wait for the event itself. A poll
  // that takes it may cause one more.
  ASSERT_EQ(::poll(&source, 1, 30'000), 1);
  ASSERT_TRUE(eventually([&] { return require(left.poll()) == 0 && ::poll(&source, 1, 0) == 0; }));
  EXPECT_TRUE(succeeds(sending.wait().result));
  ASSERT_TRUE(arrived.ready_within(kForever));
  auto prepared = require(PreparedChannel::create(domain));
  in_forked_child([&] {
    EXPECT_TRUE(fails_with(left.poll(), Errc::forked));
    EXPECT_TRUE(fails_with(left.fd(), Errc::forked));
    EXPECT_TRUE(in_flight.ready());
    EXPECT_TRUE(fails_with(in_flight.wait(kForever).result, Errc::forked));
    EXPECT_TRUE(fails_with(arrived.wait(kForever).result, Errc::forked));
    EXPECT_TRUE(fails_with(left.send(memory.gather()), Errc::forked));
    EXPECT_TRUE(fails_with(left.receive(memory.scatter()), Errc::forked));
    EXPECT_TRUE(fails_with(right.send(std::move(memory)).wait().result, Errc::forked));
    EXPECT_TRUE(fails_with(left.finish_sends(), Errc::forked));
    left.cancel();
    EXPECT_TRUE(fails_with(left.close(), Errc::forked));
    EXPECT_TRUE(fails_with(std::move(prepared).connect(prepared.endpoint()), Errc::forked));
    const Channel gone = std::move(left);  // Destroyed here.
  });
  EXPECT_FALSE(left.cause());
  EXPECT_EQ(::poll(&source, 1, 0), 0) << "the child woke the parent";
  EXPECT_TRUE(succeeds(arrived.wait().result));
  EXPECT_TRUE(succeeds(right.send(memory.gather())));
  EXPECT_TRUE(succeeds(in_flight.wait().result));
  exchange(left, right);
}

TEST_F(ChannelFork, ScopeThatIsOpenInTheChildEnds) {
  Buffer memory = filled(kPiece, seed);
  const auto outcome = left.scope([&](Scope& scope) {
    const Operation receiving = scope.post(Receive{memory.scatter()});
    scope.post_detached(Receive{memory.scatter(0, 0)});
    in_forked_child([&] {
      EXPECT_TRUE(fails_with(scope.wait(receiving), Errc::forked));
      const Operation refused = scope.post(Send{memory.gather(0, 0)});
      EXPECT_FALSE(refused.posted());
      EXPECT_TRUE(fails_with(scope.wait(refused), Errc::forked));
      scope.post_detached(Send{memory.gather(0, 0)});
      const auto nested = left.scope(
          [&](Scope& inner) { static_cast<void>(inner.post(Send{memory.gather(0, 0)})); });
      ASSERT_FALSE(nested.has_value());
      EXPECT_EQ(nested.error().operations.at(0).code, Errc::forked);
    });
    Buffer message = filled(kPiece, seed + 1);
    EXPECT_TRUE(succeeds(right.send(message.gather())));
    EXPECT_TRUE(succeeds(scope.wait(receiving)));
    EXPECT_TRUE(holds(memory.bytes(), seed + 1));
    EXPECT_TRUE(succeeds(right.send(message.gather(0, 0))));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ChannelFork, DoesNotDisturbAThreadThatUsesAnotherChannel) {
  auto [one, two] = require(connect_pair(domain));
  std::atomic<bool> stop{false};
  std::thread traffic([&, &first = one, &second = two] {
    Buffer from = filled(kPiece, seed);
    while (!stop.load()) {
      auto receiving = second.receive(empty(kPiece));
      ASSERT_TRUE(succeeds(first.send(from.gather())));
      ASSERT_TRUE(succeeds(receiving.wait().result));
    }
  });
  for (int i = 0; i < 20; ++i)
    in_forked_child([&, &first = one] {
      EXPECT_TRUE(fails_with(left.poll(), Errc::forked));
      EXPECT_TRUE(fails_with(first.poll(), Errc::forked));
    });
  stop = true;
  traffic.join();
  exchange(left, right);
}

}  // namespace
}  // namespace verbatim::test
