// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a deadline, a cancel or a failure ends a channel: everything outstanding comes back, the
//       cause stays, nothing lands in a buffer afterwards, and the channel can be reconnected.
// Method: operations that cannot finish, because the peer does nothing.
// Covers: channel/channel_end.cpp
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <ctime>
#include <stop_token>
#include <thread>
#include <vector>

#include "conformance/connected_channels.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class ChannelEnd : public ConnectedChannels {};

TEST_F(ChannelEnd, DeadlineGivesTheBufferBackAndNothingLandsInIt) {
  auto [buffer, result] = right.receive(empty(64)).wait(20ms);
  EXPECT_TRUE(fails_with(result, Errc::timed_out));
  ASSERT_TRUE(buffer);
  ASSERT_TRUE(right.cause());
  EXPECT_EQ(right.cause()->code, Errc::timed_out);
  // The peer's message comes too late.
  auto sending = left.send(filled(64, seed));
  static_cast<void>(sending.wait(50ms));
  EXPECT_TRUE(all_equal(buffer.bytes(), std::byte{}));
}

TEST_F(ChannelEnd, DeadlineBreaksTheChannelForEverybody) {
  auto other = right.receive(empty(64));
  EXPECT_TRUE(fails_with(right.receive(empty(64)).wait(10ms).result, Errc::timed_out));
  auto [buffer, result] = other.wait();
  EXPECT_TRUE(buffer);
  EXPECT_TRUE(fails_with(result, Errc::timed_out));  // The cause, not just "flushed".
  EXPECT_TRUE(fails_with(right.receive(empty(64)).wait().result, Errc::broken));
}

TEST_F(ChannelEnd, BlockingCallAndScopeKeepTheDeadlineToo) {
  Buffer sink = empty(64);
  EXPECT_TRUE(fails_with(right.receive(sink.scatter(), 10ms), Errc::timed_out));
  const auto outcome = left.scope([&](Scope& scope) -> Result<void> {
    const auto done = scope.wait(scope.post(Receive{sink.scatter()}), 10ms);
    return done ? Result<void>{} : std::unexpected(done.error());
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().closure->code, Errc::timed_out);
}

TEST_F(ChannelEnd, ScopeThatNobodyServesEndsByTheChannelsOwnTimeout) {
  auto [a, b] = require(connect_pair(domain, {.timeout = 30ms}));
  Buffer sink = empty(64);
  const auto outcome =
      a.scope([&](Scope& scope) { static_cast<void>(scope.post(Receive{sink.scatter()})); });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_EQ(outcome.error().operations[0].code, Errc::timed_out);
}

TEST_F(ChannelEnd, CancelWakesASleepingWait) {
  const Canceller canceller = right.canceller();
  auto receiving = right.receive(empty(64));
  std::jthread other([&] {
    std::this_thread::sleep_for(20ms);  // wait: until the other thread sleeps, most likely
    canceller.cancel();
  });
  const auto start = Clock::now();
  auto [buffer, result] = receiving.wait(kPatience);
  EXPECT_LT(Clock::now() - start, kPatience / 2);
  EXPECT_TRUE(fails_with(result, Errc::cancelled));
  EXPECT_TRUE(buffer);
}

TEST_F(ChannelEnd, CancelIsHeededByTheNextPost) {
  right.cancel();
  EXPECT_TRUE(fails_with(right.receive(empty(64)).wait().result, Errc::broken));
  EXPECT_EQ(right.cause()->code, Errc::cancelled);
}

TEST_F(ChannelEnd, EndedFromOutsideItNamesThatCause) {
  const Error lost{.code = Errc::peer_lost, .operation = "group", .field = "rank", .value = 3};
  auto receiving = right.receive(empty(64));
  right.canceller().end(lost);
  right.cancel();  // Too late: the first cause counts.
  const auto result = receiving.wait(kPatience).result;
  EXPECT_TRUE(fails_with(result, Errc::peer_lost));
  EXPECT_EQ(result.error().value, 3u);
  EXPECT_EQ(right.cause()->code, Errc::peer_lost);
}

/// Options with which the device soon notices that nobody answers.
ChannelOptions impatient(std::chrono::nanoseconds news) {
  return {.news_timeout = news,
          .ack_timeout = require(AckTimeout::at_least(1ms)),
          .max_ack_retries = require(MaxAckRetries::limited(1))};
}

TEST_F(ChannelEnd, WorkThatNobodyAnswersWaitsForTheNewsOfThePeer) {
  auto [a, b] = require(connect_pair(domain, impatient(kPatience)));
  {
    const Channel gone = std::move(b);
  }
  std::jthread news([canceller = a.canceller()] {
    std::this_thread::sleep_for(20ms);  // wait: the device should be faster, most likely
    canceller.end({.code = Errc::peer_lost, .operation = "group", .field = "rank", .value = 5});
  });
  const auto start = Clock::now();
  const auto result = a.send(filled(8, 1)).wait(2 * kPatience).result;
  EXPECT_LT(Clock::now() - start, kPatience);
  EXPECT_TRUE(fails_with(result, Errc::peer_lost));
  EXPECT_EQ(result.error().value, 5u);
}

TEST_F(ChannelEnd, IfNobodyWillTellNoAnswerIsThePeersEnd) {
  ChannelOptions options = impatient(kPatience);
  // More than one lost moment, because this peer answers at first.
  options.ack_timeout = require(AckTimeout::at_least(30ms));
  options.max_ack_retries = require(MaxAckRetries::limited(6));
  auto [a, b] = require(connect_pair(domain, options));
  a.canceller().end_if_unanswered(
      {.code = Errc::peer_lost, .operation = "group", .field = "rank", .value = 5});
  auto receiving = b.receive(empty(8));
  EXPECT_TRUE(succeeds(a.send(filled(8, 1)).wait(kPatience).result)) << "it answers";
  EXPECT_TRUE(succeeds(receiving.wait(kPatience).result));
  {
    const Channel gone = std::move(b);
  }
  const auto start = Clock::now();
  const auto result = a.send(filled(8, 1)).wait(2 * kPatience).result;
  EXPECT_LT(Clock::now() - start, kPatience);
  EXPECT_TRUE(fails_with(result, Errc::peer_lost));
  EXPECT_EQ(result.error().value, 5u);
}

TEST_F(ChannelEnd, WithoutNewsTheDevicesErrorIsTold) {
  auto [a, b] = require(connect_pair(domain, impatient(50ms)));
  {
    const Channel gone = std::move(b);
  }
  const auto start = Clock::now();
  EXPECT_TRUE(fails_with(a.send(filled(8, 1)).wait(kPatience).result, Errc::work_failed));
  EXPECT_GE(Clock::now() - start, 50ms);
}

TEST_F(ChannelEnd, StopRequestCancels) {
  std::stop_source source;
  right.cancel_on(source.get_token());
  auto receiving = right.receive(empty(64));
  source.request_stop();
  EXPECT_TRUE(fails_with(receiving.wait(kPatience).result, Errc::cancelled));
}

TEST_F(ChannelEnd, CancellerOutlivesTheChannel) {
  const Canceller canceller = right.canceller();
  {
    const Channel gone = std::move(right);
  }
  canceller.cancel();
}

TEST_F(ChannelEnd, RecycledChannelsTalkAgain) {
  exchange(left, right);
  EXPECT_TRUE(fails_with(right.receive(empty(64)).wait(10ms).result, Errc::timed_out));
  left.cancel();
  EXPECT_TRUE(fails_with(left.receive(empty(8)).wait().result, Errc::broken));
  auto [again_left, again_right] =
      join(require(std::move(left).recycle()), require(std::move(right).recycle()));
  EXPECT_FALSE(again_left.cause());
  for (int i = 0; i < 200; ++i) exchange(again_left, again_right);
  exchange(again_right, again_left);
}

TEST_F(ChannelEnd, RecycleRefusesAChannelThatLives) {
  const auto refused = std::move(left).recycle();
  ASSERT_TRUE(fails_with(refused, Errc::busy));
  exchange(left, right);
}

TEST_F(ChannelEnd, RecycleRefusesWhileResultsWereNotTaken) {
  auto receiving = right.receive(empty(64));
  right.cancel();
  static_cast<void>(right.receive(empty(8)).wait());
  ASSERT_TRUE(fails_with(std::move(right).recycle(), Errc::busy));
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::cancelled));
  EXPECT_TRUE(succeeds(std::move(right).recycle()));
}

TEST_F(ChannelEnd, CloseLetsSendsFinish) {
  auto receiving = right.receive(empty(64));
  auto sending = left.send(filled(64, seed));
  EXPECT_TRUE(succeeds(left.close()));
  EXPECT_TRUE(succeeds(sending.wait().result));
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(received.bytes(), seed));
  EXPECT_EQ(left.cause()->code, Errc::closed);
}

TEST_F(ChannelEnd, CloseGivesUpOnSendsThatNobodyReceives) {
  auto sending = left.send(filled(64, seed));
  EXPECT_TRUE(fails_with(left.close(20ms), Errc::timed_out));
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::closed));
}

TEST_F(ChannelEnd, DestructorIsBounded) {
  auto [a, b] = require(connect_pair(domain, {.flush_timeout = 50ms}));
  auto sending = a.send(filled(64, seed));  // Never received.
  const auto start = Clock::now();
  {
    const Channel gone = std::move(a);
  }
  EXPECT_LT(Clock::now() - start, 10s);
  EXPECT_TRUE(sending.wait().buffer);
}

TEST_F(ChannelEnd, FileDescriptorBecomesReadable) {
  if (reactor) GTEST_SKIP() << "the Reactor has one descriptor for all";
  auto receiving = right.receive(empty(64));
  const int fd = require(right.fd());
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  auto sending = left.send(filled(64, seed));
  ASSERT_EQ(::poll(&entry, 1, 30'000), 1);
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(right.poll());
    return receiving.ready();
  }));
  EXPECT_TRUE(succeeds(receiving.wait().result));
}

/// The processor time of this thread, and how often it gave its processor away to sleep.
struct Used {
  std::chrono::nanoseconds time;
  long sleeps;

  static Used so_far() {
    timespec time{};
    rusage usage{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    getrusage(RUSAGE_THREAD, &usage);
    return {std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec},
            usage.ru_nvcsw};
  }
};

TEST_F(ChannelEnd, IdleWaitSleeps) {
  // The processor time of a wait of 300 ms is only a small part of it. One such wait is enough: a
  // virtual machine that stands still counts as busy. A wait that spins never sleeps, even if it
  // uses little time because others have the processor.
  EXPECT_TRUE(eventually([&] {
    auto [a, b] = require(connect_pair(domain, on_reactor({})));
    const Used before = Used::so_far();
    static_cast<void>(b.receive(empty(64)).wait(300ms));
    const Used after = Used::so_far();
    return after.time - before.time < 150ms && after.sleeps > before.sleeps;
  }));
}

}  // namespace
}  // namespace verbatim::test
