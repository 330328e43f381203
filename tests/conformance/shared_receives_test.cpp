// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: channels of one reactor share their receives: each message reaches its channel, every
//       buffer comes home whatever happens to the channel, and no channel takes them all.
// Method: pairs of channels on one reactor; the buffers are counted afterwards.
// Covers: channel/shared_receives.cpp, channel/inbox.cpp
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/connected_channels.hpp"
#include "support/throwing_contracts.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class SharedReceives : public testing::Test {
 protected:
  static constexpr std::uint32_t kCount = 64;
  static constexpr std::uint32_t kMaxUnread = 8;
  static constexpr std::size_t kBytes = 256;

  void SetUp() override {
    if (!capabilities().shared_receive_queue)
      GTEST_SKIP() << "the device has no shared receive queues";
    make(kCount);
  }
  void make(std::uint32_t count) {
    reactor.emplace(require(
        Reactor::create(domain, {.receives = SharedReceiveOptions{
                                     .bytes = kBytes, .count = count, .max_unread = kMaxUnread}})));
  }
  [[nodiscard]] std::pair<Channel, Channel> connected() {
    return require(connect_pair(domain, {.on = *reactor, .max_sends = 15, .flush_timeout = 200ms}));
  }
  [[nodiscard]] Buffer filled(std::size_t bytes, std::uint64_t with) {
    Buffer buffer = require(domain.allocate(bytes));
    fill(buffer.bytes(), with);
    return buffer;
  }
  /// Whether all buffers come home once everything is over.
  [[nodiscard]] bool all_home(std::uint32_t count = kCount) {
    return eventually([&] {
      reactor->poll();
      return reactor->free_receives() == count;
    });
  }

  /// Sends back each message in the buffer in which it arrived, until the channel ends.
  static Task<void> echo(Channel& channel, Error& end) {
    for (;;) {
      auto [buffer, result] = co_await channel.receive();
      if (!result) {
        EXPECT_FALSE(buffer);
        end = result.error();
        co_return;
      }
      auto sent = co_await channel.send(std::move(buffer), {.length = *result->byte_count()});
      if (!sent.result) {
        end = sent.result.error();
        co_return;
      }
    }
  }
  /// Sends messages of different lengths and gets them back. Counts how many came back right.
  static Task<void> ask(Channel& channel, Channel& server, Buffer out, std::uint64_t base,
                        int count, int& right) {
    for (int i = 0; i < count; ++i) {
      const std::size_t length = 1 + static_cast<std::size_t>(i) % kBytes;
      fill(out.bytes().first(length), base + static_cast<std::uint64_t>(i));
      auto [sent, went] = co_await channel.send(std::move(out), {.length = length});
      if (!went) break;
      const auto answer = co_await channel.receive();
      if (!answer.result) break;
      right += answer.received().size() == length &&
               holds(answer.received(), base + static_cast<std::uint64_t>(i));
      out = std::move(sent);
    }
    server.cancel();
  }
  static Task<void> await_one(Channel& channel, std::optional<Result<Completion>>& result,
                              bool& has_buffer) {
    auto [buffer, came] = co_await channel.receive();
    has_buffer = static_cast<bool>(buffer);
    result = came;
  }

  std::uint64_t seed = test_seed();
  Context context = open_context();
  ProtectionDomain domain = require(context.allocate_domain());
  std::optional<Reactor> reactor{};
};

TEST_F(SharedReceives, EchoOnManyChannels) {
  constexpr std::size_t kPairs = 16;
  constexpr int kRounds = 320;  // 2 * 16 * 320 messages: over 10,000.
  std::vector<std::pair<Channel, Channel>> pairs;
  pairs.reserve(kPairs);
  std::vector<Error> ends(kPairs);
  std::vector<int> right(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) pairs.push_back(connected());
  for (std::size_t i = 0; i < kPairs; ++i) {
    reactor->spawn(echo(pairs[i].second, ends[i]));
    reactor->spawn(ask(pairs[i].first, pairs[i].second, filled(kBytes, 0), seed + 1000 * i, kRounds,
                       right[i]));
  }
  reactor->run();
  for (std::size_t i = 0; i < kPairs; ++i) {
    EXPECT_EQ(right[i], kRounds) << "pair " << i;
    EXPECT_EQ(ends[i], Errc::cancelled) << to_string(ends[i]);
  }
  EXPECT_TRUE(all_home()) << reactor->free_receives();
}

TEST_F(SharedReceives, BuffersComeHomeFromChannelsThatComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    auto [left, right] = connected();
    std::optional<Result<Completion>> result;
    bool has_buffer = false;
    const std::size_t unread = static_cast<std::size_t>(i) % (kMaxUnread - 1);
    for (std::size_t j = 0; j <= unread; ++j)
      ASSERT_TRUE(succeeds(left.send(filled(100, seed)).wait().result)) << "channel " << i;
    reactor->spawn(await_one(right, result, has_buffer));
    reactor->poll();
    if (i % 3 == 0) right.cancel();
    if (i % 3 == 1) left.cancel();
  }  // The others go with messages that nobody has read.
  reactor->run();
  EXPECT_TRUE(all_home()) << reactor->free_receives();
  // They are posted, not only counted.
  auto [left, right] = connected();
  for (std::uint32_t i = 0; i < 2 * kCount; ++i) {
    ASSERT_TRUE(succeeds(left.send(filled(100, seed + i)).wait().result)) << i;
    const auto came = right.receive().wait(10s);
    ASSERT_TRUE(succeeds(came.result));
    EXPECT_TRUE(holds(came.received(), seed + i));
  }
}

TEST_F(SharedReceives, ChannelThatNobodyReadsEndsAndGivesItsBuffersBack) {
  auto [left, right] = connected();
  auto [one, other] = connected();
  for (std::uint32_t i = 0; i < kMaxUnread; ++i)
    ASSERT_TRUE(succeeds(left.send(filled(100, seed)).wait().result));
  EXPECT_FALSE(right.cause());
  auto last = left.send(filled(100, seed));
  EXPECT_TRUE(eventually([&] {
    reactor->poll();
    return right.is_over();
  }));
  ASSERT_TRUE(right.cause());
  EXPECT_EQ(*right.cause(), Errc::limit_exceeded);
  EXPECT_EQ(right.cause()->limit, kMaxUnread);
  EXPECT_TRUE(fails_with(right.receive().wait().result, Errc::limit_exceeded));
  static_cast<void>(last.wait());
  EXPECT_TRUE(all_home()) << reactor->free_receives();
  // The other channels are not affected.
  ASSERT_TRUE(succeeds(one.send(filled(100, seed)).wait().result));
  EXPECT_TRUE(succeeds(other.receive().wait(10s).result));
}

TEST_F(SharedReceives, CoroutineDestroyedWhileItWaitsLosesNoMessage) {
  auto [left, right] = connected();
  std::optional<Result<Completion>> result;
  bool has_buffer = false;
  {
    auto waiting = [](Channel& channel, std::optional<Result<Completion>>& out,
                      bool& buffer) -> Task<void> { co_await await_one(channel, out, buffer); };
    Reactor other = require(Reactor::create(domain));
    other.spawn(waiting(right, result, has_buffer));
  }  // Its coroutines go with it.
  ASSERT_TRUE(succeeds(left.send(filled(100, seed)).wait().result));
  const auto came = right.receive().wait(10s);
  ASSERT_TRUE(succeeds(came.result));
  EXPECT_TRUE(holds(came.received(), seed));
  EXPECT_FALSE(result);
}

TEST_F(SharedReceives, MessageGivenToACoroutineThatIsDestroyedGoesToTheNext) {
  auto [left, right] = connected();
  std::optional<Result<Completion>> result;
  bool has_buffer = false;
  {
    Reactor other = require(Reactor::create(domain));
    other.spawn(await_one(right, result, has_buffer));
    // A blocking call finds the message. The coroutine would continue in the next turn.
    ASSERT_TRUE(succeeds(left.send(filled(100, seed)).wait().result));
    EXPECT_TRUE(eventually([&] { return right.poll() && reactor->free_receives() == kCount - 1; }));
  }
  const auto came = right.receive().wait(10s);
  ASSERT_TRUE(succeeds(came.result));
  EXPECT_TRUE(holds(came.received(), seed));
  EXPECT_FALSE(result);
}

TEST_F(SharedReceives, MessagesComeInOrderToThoseWhoWait) {
  auto [left, right] = connected();
  std::vector<std::uint64_t> order;
  const auto one = [](Channel& channel, std::uint64_t base, std::uint64_t number,
                      std::vector<std::uint64_t>& into) -> Task<void> {
    const auto came = co_await channel.receive();
    if (came.result && holds(came.received(), base + number)) into.push_back(number);
  };
  for (std::uint64_t i = 0; i < 4; ++i) reactor->spawn(one(right, seed, i, order));
  for (std::uint64_t i = 0; i < 4; ++i)
    ASSERT_TRUE(succeeds(left.send(filled(50, seed + i)).wait().result));
  reactor->run();
  EXPECT_EQ(order, (std::vector<std::uint64_t>{0, 1, 2, 3}));
}

TEST_F(SharedReceives, ChannelDestroyedUnderAWaiterTellsIt) {
  std::optional<Result<Completion>> result;
  bool has_buffer = true;
  {
    auto [left, right] = connected();
    reactor->spawn(await_one(right, result, has_buffer));
  }
  reactor->run();
  ASSERT_TRUE(result);
  EXPECT_TRUE(fails_with(*result, Errc::closed));
  EXPECT_FALSE(has_buffer);
}

TEST_F(SharedReceives, WhatHadArrivedIsGivenBeforeTheEnd) {
  auto [left, right] = connected();
  for (std::uint64_t i = 0; i < 3; ++i)
    ASSERT_TRUE(succeeds(left.send(filled(50, seed + i)).wait().result));
  right.cancel();
  EXPECT_TRUE(eventually([&] {
    reactor->poll();
    return right.is_over();
  }));
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto came = right.receive().wait(10s);
    ASSERT_TRUE(succeeds(came.result));
    EXPECT_TRUE(holds(came.received(), seed + i));
  }
  EXPECT_TRUE(fails_with(right.receive().wait(10s).result, Errc::cancelled));
}

TEST_F(SharedReceives, DeadlineThatPassesEndsNothing) {
  auto [left, right] = connected();
  EXPECT_TRUE(fails_with(right.receive().wait(5ms).result, Errc::timed_out));
  const auto late = [](Channel& channel, Errc& code) -> Task<void> {
    const auto came = co_await wait_until(channel.receive(), 5ms);
    if (!came.result) code = came.result.error().code;
  };
  Errc code{};
  reactor->spawn(late(right, code));
  reactor->run();
  EXPECT_EQ(code, Errc::timed_out);
  ASSERT_TRUE(succeeds(left.send(filled(100, seed)).wait().result));
  EXPECT_TRUE(succeeds(right.receive().wait(10s).result));
}

TEST_F(SharedReceives, BlockingWaitDrivesTheQueue) {
  auto [one, other] = connected();
  auto sending = one.send(filled(100, seed));
  auto incoming = other.receive();
  const auto came = incoming.wait(10s);
  ASSERT_TRUE(succeeds(came.result));
  EXPECT_TRUE(holds(came.received(), seed));
  EXPECT_TRUE(succeeds(sending.wait().result));
}

TEST_F(SharedReceives, BuffersDroppedByAnotherThreadComeHome) {
  auto [left, right] = connected();
  for (std::uint32_t round = 0; round < 4 * kCount / kMaxUnread; ++round) {
    std::vector<Buffer> taken;
    for (std::uint32_t i = 0; i < kMaxUnread; ++i) {
      ASSERT_TRUE(succeeds(left.send(filled(100, seed + i)).wait(10s).result)) << round;
      auto [buffer, result] = right.receive().wait(10s);
      ASSERT_TRUE(succeeds(result));
      taken.push_back(std::move(buffer));
    }
    std::jthread{[dropped = std::move(taken)]() mutable { dropped.clear(); }}.join();
  }
  EXPECT_TRUE(all_home()) << reactor->free_receives();
}

// The peer waits for a receive, the reactor sleeps, and another thread drops the buffers.
TEST_F(SharedReceives, DropByAnotherThreadWakesAReactorThatHasNoReceivesLeft) {
  make(4);
  auto [left, right] = connected();
  std::vector<Buffer> taken;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(succeeds(left.send(filled(100, seed)).wait(10s).result));
    auto [buffer, result] = right.receive().wait(10s);
    ASSERT_TRUE(succeeds(result));
    taken.push_back(std::move(buffer));
  }
  std::optional<Result<Completion>> result;
  bool has_buffer = false;
  reactor->spawn(await_one(right, result, has_buffer));
  auto sending = left.send(filled(100, seed));
  const std::jthread dropper{[dropped = std::move(taken)]() mutable {
    std::this_thread::sleep_for(20ms);  // wait: the reactor should be asleep; it need not.
    dropped.clear();
  }};
  reactor->run();
  ASSERT_TRUE(result);
  EXPECT_TRUE(succeeds(*result));
  EXPECT_TRUE(succeeds(sending.wait(10s).result));
}

TEST_F(SharedReceives, BuffersOutliveTheirReactor) {
  std::vector<Buffer> taken;
  {
    auto [left, right] = connected();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(succeeds(left.send(filled(100, seed)).wait().result));
      auto [buffer, result] = right.receive().wait(10s);
      ASSERT_TRUE(succeeds(result));
      taken.push_back(std::move(buffer));
    }
    reactor.reset();
    // The channels live on, with blocking calls.
    ASSERT_TRUE(succeeds(left.send(filled(100, seed + 1)).wait().result));
    EXPECT_TRUE(succeeds(right.receive().wait(10s).result));
  }
  for (Buffer& each : taken) EXPECT_TRUE(holds(each.bytes().first(100), seed));
  std::jthread{[last = std::move(taken.back())] {}}.join();
}

TEST_F(SharedReceives, MessageLongerThanABufferBreaksItsChannelOnly) {
  auto [left, right] = connected();
  auto [one, other] = connected();
  EXPECT_FALSE(left.send(filled(2 * kBytes, seed)).wait().result);
  const auto came = right.receive().wait(10s);
  ASSERT_FALSE(came.result);
  EXPECT_FALSE(came.buffer);
  EXPECT_EQ(came.result.error(), Errc::work_failed) << to_string(came.result.error());
  ASSERT_TRUE(succeeds(one.send(filled(kBytes, seed)).wait().result));
  EXPECT_TRUE(succeeds(other.receive().wait(10s).result));
  EXPECT_TRUE(all_home()) << reactor->free_receives();
}

TEST_F(SharedReceives, ImmediateComesWithoutData) {
  auto [left, right] = connected();
  auto sending = left.send(NoMemory{}, {.immediate = 17});
  const auto came = right.receive().wait(10s);
  ASSERT_TRUE(succeeds(came.result));
  EXPECT_EQ(came.result->immediate(), 17u);
  EXPECT_TRUE(came.received().empty());
  EXPECT_TRUE(succeeds(sending.wait().result));
}

TEST_F(SharedReceives, TagTellsThatAMessageHasCome) {
  auto [left, right] = connected();
  int tag = 0;
  auto incoming = right.receive();
  reactor->notify(incoming, &tag);
  Incoming moved = std::move(incoming);
  std::array<void*, 4> tags{};
  EXPECT_EQ(reactor->poll(tags), 0u);
  auto sending = left.send(filled(100, seed));
  std::size_t count = 0;
  EXPECT_TRUE(eventually([&] { return (count = reactor->poll(tags)) != 0; }));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(tags[0], &tag);
  EXPECT_TRUE(succeeds(moved.wait(0ms).result));
  EXPECT_TRUE(succeeds(sending.wait().result));
}

TEST_F(SharedReceives, OwnReceiveIsRefusedAndSaysWhy) {
  auto [left, right] = connected();
  const auto refused = right.receive(filled(64, 0)).wait();
  ASSERT_TRUE(fails_with(refused.result, Errc::unsupported));
  EXPECT_TRUE(refused.buffer);
}

TEST_F(SharedReceives, RecycledChannelReceivesAgain) {
  auto [left, right] = connected();
  ASSERT_TRUE(succeeds(left.send(filled(100, seed)).wait().result));
  for (Channel* const each : {&left, &right}) each->cancel();
  EXPECT_TRUE(eventually([&] {
    reactor->poll();
    return left.is_over() && right.is_over();
  }));
  EXPECT_TRUE(fails_with(std::move(right).recycle(), Errc::busy)) << "a message is unread";
  // NOLINTNEXTLINE(bugprone-use-after-move): it was refused, so that nothing was moved.
  EXPECT_TRUE(succeeds(right.receive().wait().result));
  PreparedChannel a = require(std::move(left).recycle());
  PreparedChannel b = require(std::move(right).recycle());
  const Endpoint first = a.endpoint();
  const Endpoint second = b.endpoint();
  Channel one = require(std::move(a).connect(second));
  Channel other = require(std::move(b).connect(first));
  ASSERT_TRUE(succeeds(one.send(filled(100, seed + 1)).wait().result));
  const auto came = other.receive().wait(10s);
  ASSERT_TRUE(succeeds(came.result));
  EXPECT_TRUE(holds(came.received(), seed + 1));
}

TEST(WithoutSharedReceives, ReceiveWithoutMemorySaysSo) {
  Context context = open_context();
  ProtectionDomain domain = require(context.allocate_domain());
  auto [left, right] = require(connect_pair(domain));
  const auto came = left.receive().wait();
  EXPECT_TRUE(fails_with(came.result, Errc::unsupported));
  EXPECT_FALSE(came.buffer);
  EXPECT_FALSE(left.cause());
}

}  // namespace
}  // namespace verbatim::test
