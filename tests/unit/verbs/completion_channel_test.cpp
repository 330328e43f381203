// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each event and nothing else wakes a thread that sleeps on a channel, and it sleeps no
//       longer than requested; every event is acknowledged, so that destroying a queue never waits.
// Method: sends that complete at once on the null provider, which counts events that are not
//         acknowledged.
#include "verbatim/verbs/completion_channel.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kForEver = std::chrono::nanoseconds::max();

class CompletionChannelTest : public NullDevice {
 protected:
  /// A queue pair whose completions raise events on the channel.
  struct Line {
    explicit Line(const ProtectionDomain& domain, const CompletionChannel& channel)
        : queue(require(
              domain.context().create_completion_queue({.depth = 256, .channel = channel}))),
          queue_pair(loop_back(require(QueuePair::prepare(options_for(domain, queue))))) {}
    void send(std::uint64_t id) { require(unsafe::post(queue_pair, send_immediate(0), WrId{id})); }
    CompletionQueue queue;
    QueuePair queue_pair;
  };
  void SetUp() override {
    context.emplace(open());
    channel.emplace(require(context->create_completion_channel()));
    domain.emplace(require(context->allocate_domain()));
  }
  void TearDown() override {
    context.reset();
    channel.reset();
    domain.reset();
    NullDevice::TearDown();
  }
  Line line() { return Line{*domain, *channel}; }
  static void send_later(Line& line, std::uint64_t id) {
    std::this_thread::sleep_for(20ms);  // wait: the other thread should be asleep by then
    line.send(id);
  }
  static bool readable(int fd) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
  }

  std::optional<Context> context;
  std::optional<CompletionChannel> channel;
  std::optional<ProtectionDomain> domain;
  std::array<Completion, 8> completions;
};

TEST_F(CompletionChannelTest, TimesOutWhenNothingComes) {
  const auto start = Clock::now();
  EXPECT_TRUE(fails_with(channel->wait(20ms), Errc::timed_out));
  EXPECT_GE(Clock::now() - start, 20ms);
}

TEST_F(CompletionChannelTest, NoTimeAtAllOnlyLooks) {
  EXPECT_TRUE(fails_with(channel->wait(0ns), Errc::timed_out));
  EXPECT_TRUE(fails_with(channel->wait(-1s), Errc::timed_out));
  Line here = line();
  require(here.queue.arm());
  here.send(1);
  EXPECT_EQ(require(channel->wait(0ns)), 1u);
}

TEST_F(CompletionChannelTest, DescriptorIsReadableWhileAnEventWaitsAndNeverBlocks) {
  EXPECT_NE(fcntl(channel->fd(), F_GETFL) & O_NONBLOCK, 0);
  Line here = line();
  EXPECT_FALSE(readable(channel->fd()));
  require(here.queue.arm());
  EXPECT_FALSE(readable(channel->fd()));
  here.send(1);
  EXPECT_TRUE(readable(channel->fd()));
  EXPECT_EQ(require(channel->wait(1s)), 1u);
  EXPECT_FALSE(readable(channel->fd()));
}

TEST_F(CompletionChannelTest, OnlyAnArmedQueueRaisesAnEventAndOnlyOne) {
  Line here = line();
  here.send(1);
  EXPECT_TRUE(fails_with(channel->wait(0ns), Errc::timed_out));
  require(here.queue.arm());
  here.send(2);
  here.send(3);
  EXPECT_EQ(require(channel->wait(1s)), 1u);
  here.send(4);
  EXPECT_TRUE(fails_with(channel->wait(0ns), Errc::timed_out));
}

TEST_F(CompletionChannelTest, MarksTheQueuesThatRaisedOne) {
  Line first = line();
  Line second = line();
  Line third = line();
  for (Line* each : {&first, &second, &third}) require(each->queue.arm());
  first.send(1);
  third.send(1);
  EXPECT_EQ(require(channel->wait(1s)), 2u);
  EXPECT_TRUE(first.queue.take_signal());
  EXPECT_FALSE(first.queue.take_signal());  // Taken.
  EXPECT_FALSE(second.queue.take_signal());
  EXPECT_TRUE(third.queue.take_signal());
}

// A program that polls all queues after each wake-up need not ask which one it was.
TEST_F(CompletionChannelTest, AMarkThatNobodyTookDoesNotHideTheNextEvent) {
  Line here = line();
  for (int round = 0; round < 3; ++round) {
    require(here.queue.arm());
    here.send(1);
    EXPECT_TRUE(succeeds(channel->wait(1s))) << "in round " << round;
  }
}

TEST_F(CompletionChannelTest, WakesAThreadThatSleeps) {
  Line here = line();
  require(here.queue.arm());
  std::thread sender{[&] { send_later(here, 1); }};
  EXPECT_TRUE(succeeds(channel->wait(kForEver)));
  sender.join();
}

TEST_F(CompletionChannelTest, SolicitedOnlySleepsThroughTheRest) {
  Line here = line();
  require(here.queue.arm(Arm::solicited_only));
  here.send(1);
  EXPECT_TRUE(fails_with(channel->wait(0ns), Errc::timed_out));
  // A failure always counts as solicited.
  verbatim_null_fail_send(unsafe::native(here.queue_pair), IBV_WC_REM_ACCESS_ERR);
  here.send(2);
  EXPECT_EQ(require(channel->wait(1s)), 1u);
}

// ---- CompletionQueue::wait

TEST_F(CompletionChannelTest, QueueWaitTakesWhatIsThere) {
  Line here = line();
  here.send(1);
  EXPECT_EQ(require(here.queue.wait(completions, 0ns)), 1u);
  EXPECT_EQ(completions[0].id(), WrId{1});
}

TEST_F(CompletionChannelTest, QueueWaitTimesOut) {
  Line here = line();
  const auto start = Clock::now();
  EXPECT_TRUE(fails_with(here.queue.wait(completions, 20ms), Errc::timed_out));
  EXPECT_GE(Clock::now() - start, 20ms);
}

// An earlier event whose completion was already polled is no reason to return.
TEST_F(CompletionChannelTest, QueueWaitSleepsOnAfterAnEventWithoutACompletion) {
  Line here = line();
  require(here.queue.arm());
  here.send(1);
  EXPECT_EQ(require(here.queue.poll(completions)), 1u);
  EXPECT_TRUE(fails_with(here.queue.wait(completions, 20ms), Errc::timed_out));
  EXPECT_FALSE(readable(channel->fd()));
}

TEST_F(CompletionChannelTest, QueueWaitIsWokenByACompletion) {
  Line here = line();
  require(here.queue.arm());  // Before the post: see the threads of the null provider.
  std::thread sender{[&] { send_later(here, 5); }};
  const auto waited = here.queue.wait(completions, kForEver);
  sender.join();
  ASSERT_EQ(require(waited), 1u);
  EXPECT_EQ(completions[0].id(), WrId{5});
}

// Two queues on one channel: the signal of the other one is not forgotten.
TEST_F(CompletionChannelTest, QueueWaitMarksTheOtherQueues) {
  Line first = line();
  Line second = line();
  require(first.queue.arm());
  first.send(1);
  EXPECT_TRUE(fails_with(second.queue.wait(completions, 1ms), Errc::timed_out));
  EXPECT_TRUE(first.queue.take_signal());
}

// ---- Failures and ownership

TEST_F(CompletionChannelTest, ThatCannotBeMadeKeepsTheErrno) {
  table.create_comp_channel = [](ibv_context*) -> ibv_comp_channel* {
    errno = EMFILE;
    return nullptr;
  };
  const auto failed = open().create_completion_channel();
  ASSERT_TRUE(fails_with(failed, Errc::out_of_resources));
  EXPECT_EQ(failed.error().os_error, EMFILE);
}

int event_error = 0;

int broken_event(ibv_comp_channel* raw, ibv_cq** queue, void** user) {
  if (event_error == 0) return verbatim_null_provider()->get_cq_event(raw, queue, user);
  errno = std::exchange(event_error, 0);
  return -1;
}

TEST_F(CompletionChannelTest, ThatBreaksSaysSo) {
  table.get_cq_event = &broken_event;
  event_error = EIO;
  const auto waited = channel->wait(1s);
  ASSERT_TRUE(fails_with(waited, Errc::driver));
  EXPECT_EQ(waited.error().os_error, EIO);
}

TEST_F(CompletionChannelTest, ASignalInBetweenIsNoFailure) {
  table.get_cq_event = &broken_event;
  Line here = line();
  require(here.queue.arm());
  here.send(1);
  event_error = EINTR;
  EXPECT_EQ(require(channel->wait(1s)), 1u);
}

TEST_F(CompletionChannelTest, ArmingThatFailsSaysSo) {
  Line here = line();
  unsafe::native(*context)->ops.req_notify_cq = [](ibv_cq*, int) { return EIO; };
  const auto armed = here.queue.arm();
  ASSERT_TRUE(fails_with(armed, Errc::driver));
  EXPECT_EQ(armed.error().os_error, EIO);
  EXPECT_TRUE(fails_with(here.queue.wait(completions, 1s), Errc::driver));
}

TEST_F(CompletionChannelTest, LivesAsLongAsItsQueues) {
  std::optional<Line> here = line();
  channel.reset();
  require(here->queue.arm());
  here->send(1);
  EXPECT_EQ(require(here->queue.wait(completions, 1s)), 1u);
}

// An event that was taken and not acknowledged would delay the destruction of its queue: the null
// provider refuses it, and the fixture finds the leak.
TEST_F(CompletionChannelTest, QueuesWithWaitingEventsCanBeDestroyed) {
  Line kept = line();
  {
    Line gone = line();
    require(gone.queue.arm());
    gone.send(1);
  }
  EXPECT_TRUE(fails_with(channel->wait(0ns), Errc::timed_out));
  require(kept.queue.arm());
  kept.send(1);
  EXPECT_EQ(require(channel->wait(1s)), 1u);
}

}  // namespace
}  // namespace verbatim::test
