// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: nothing is lost silently on a device: refused posts, dropped messages, wake-ups.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <thread>
#include <vector>

#include "conformance/connected_channels.hpp"

namespace verbatim::test {
namespace {

using std::chrono_literals::operator""s;

class ChannelLosses : public ConnectedChannels {
 protected:
  ChannelLosses() : ConnectedChannels({.max_sends = 2}) {}
  static bool is_readable(int fd, int milliseconds) {
    pollfd source{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&source, 1, milliseconds) == 1;
  }
};

TEST_F(ChannelLosses, FivePostsIntoAQueueOfTwoAreNoSuccess) {
  const auto receiving = receives(5);
  Buffer message = filled(kPiece, seed);
  const auto outcome = left.scope([&](Scope& scope) {
    for (int i = 0; i < 5; ++i) static_cast<void>(scope.post(Send{message.gather()}));
  });
  ASSERT_FALSE(outcome.has_value());
  // How many requests the device has returned meanwhile may vary.
  EXPECT_GE(outcome.error().operations.size(), 1u);
  EXPECT_LE(outcome.error().operations.size(), 3u);
  for (const ScopeFailure& each : outcome.error().operations)
    EXPECT_EQ(each.code, Errc::would_block);
}

TEST_F(ChannelLosses, DetachedWritesWithoutTheRightAreToldOneByOne) {
  SharedRegion target = require(domain.allocate_shared(kPiece, Access::remote_read));
  Buffer message = filled(kPiece, seed);
  const auto outcome = left.scope([&](Scope& scope) {
    for (int i = 0; i < 10; ++i) scope.post_detached(Write{message.gather(), target.remote()});
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().operations.size(), 10u);
}

TEST_F(ChannelLosses, MessageIntoADroppedReceiveIsCounted) {
  static_cast<void>(right.receive(empty(kPiece)));
  ASSERT_TRUE(succeeds(left.send(filled(kPiece, seed)).wait().result));
  auto late = right.receive(empty(kPiece)).wait(1s);
  EXPECT_TRUE(fails_with(late.result, Errc::timed_out));
  EXPECT_EQ(right.dropped_messages(), 1u);
}

/// An event loop asks for the descriptor after the work was posted and is over: nothing else comes.
TEST_F(ChannelLosses, MessageThatCameBeforeTheDescriptorMakesItReadable) {
  if (reactor) GTEST_SKIP() << "the Reactor has one descriptor for all";
  auto receiving = right.receive(empty(kPiece));
  ASSERT_TRUE(succeeds(left.send(filled(kPiece, seed)).wait().result));
  const int fd = require(right.fd());
  ASSERT_TRUE(is_readable(fd, 10'000));
  EXPECT_EQ(require(right.poll()), 1u);
  EXPECT_TRUE(succeeds(receiving.wait().result));
  EXPECT_FALSE(is_readable(require(right.fd()), 0)) << "there is nothing left";
}

/// A message arrives while the handler of another message is in a blocking call.
TEST_F(ChannelLosses, MessageThatComesDuringABlockingCallWakesTheEventLoop) {
  if (reactor) GTEST_SKIP() << "the Reactor has one descriptor for all";
  auto first = right.receive(empty(kPiece));
  auto second = right.receive(empty(kPiece));
  const int fd = require(right.fd());
  Buffer message = filled(kPiece, seed);
  ASSERT_TRUE(succeeds(left.send(message.gather())));
  ASSERT_TRUE(is_readable(fd, 10'000));
  EXPECT_EQ(require(right.poll()), 1u);
  auto [buffer, result] = first.wait();
  ASSERT_TRUE(succeeds(result));
  std::jthread peer([&] {
    EXPECT_TRUE(succeeds(left.send(message.gather())));
    Buffer answer = empty(kPiece);
    EXPECT_TRUE(succeeds(left.receive(answer.scatter())));
  });
  // The answer waits for the peer's receive, which is posted after its second message.
  EXPECT_TRUE(succeeds(right.send(buffer.gather())));
  peer.join();
  EXPECT_TRUE(is_readable(fd, 10'000));
  EXPECT_EQ(require(right.poll()), 1u);
  EXPECT_TRUE(second.ready());
  EXPECT_TRUE(succeeds(second.wait().result));
}

}  // namespace
}  // namespace verbatim::test
