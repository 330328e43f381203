// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the program sees each fault of a plan as it would on a real device, and deferred requests
//       really run later.
// Method: a connected pair in this process, one fault at a time.
// Covers: soft/retry.cpp
#include "soft/faults/hook.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "support/test_memory.hpp"
#include "verbatim/soft/soft_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kAckTimeout = 16ms;  // Code 12: 16.8 ms.

class Faults : public testing::Test {
 protected:
  Faults() : pair(options()), buffer(require(pair.domain.allocate(4096))) {
    for (std::uint64_t id = 0; id < 8; ++id) pair.remote.post(Receive{}, id);
  }
  ~Faults() override { soft::set_behaviour({}); }

  static PairOptions options() {
    return {.both = [](QueuePairOptions& each) {
      each.ack_timeout = require(AckTimeout::limited(12));
      each.max_ack_retries = require(MaxAckRetries::limited(2));
      each.max_rnr_retries = require(MaxRnrRetries::limited(2));
    }};
  }
  static void plan(soft::FaultPlan faults) { soft::set_behaviour({.faults = std::move(faults)}); }
  void send(std::uint64_t id) {
    pair.local.post(send_immediate(static_cast<std::uint32_t>(id)), id);
  }
  WorkStatus state_of_next() { return poll_one(pair.local.sends).status(); }
  bool is_in_error() {
    return eventually(
        [&] { return require(pair.local.queue_pair.query_state()) == QueuePairState::error; });
  }

  ConnectedPair pair;
  Buffer buffer;
};

TEST_F(Faults, NoPlanNoChange) {
  EXPECT_FALSE(engine::is_unusual());
  plan(soft::FaultPlan{}.drop(1));
  EXPECT_TRUE(engine::is_unusual());
  soft::set_behaviour({});
  EXPECT_FALSE(engine::is_unusual());
  send(1);
  poll_ok(pair.local.sends);
}

TEST_F(Faults, DropOnceIsALateSuccess) {
  plan(soft::FaultPlan{}.drop(2));
  const auto start = Clock::now();
  for (std::uint64_t id = 1; id <= 3; ++id) send(id);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 3), 1));
  EXPECT_GE(Clock::now() - start, kAckTimeout);
  // Once, and in order.
  for (std::uint32_t id = 1; id <= 3; ++id)
    EXPECT_EQ(poll_ok(pair.remote.receives).immediate(), id);
}

TEST_F(Faults, DropAsOftenAsThereAreRetriesIsStillASuccess) {
  plan(soft::FaultPlan{}.drop(1, 2));
  const auto start = Clock::now();
  send(1);
  poll_ok(pair.local.sends);
  EXPECT_GE(Clock::now() - start, 2 * kAckTimeout);
}

TEST_F(Faults, LossesAreCountedHoweverLongTheyTake) {
  ConnectedPair hasty{PairOptions{.both = [](QueuePairOptions& each) {
    each.ack_timeout = require(AckTimeout::limited(1));  // 8 us: waking the helper takes longer.
    each.max_ack_retries = require(MaxAckRetries::limited(2));
  }}};
  hasty.remote.post(Receive{}, 1);
  plan(soft::FaultPlan{}.drop(1, 2));
  hasty.local.post(send_immediate(1), 1);
  // The helper tries again, and not a poll, which would take less than 8 us.
  std::this_thread::sleep_for(2ms);  // wait: for the helper's tries.
  poll_ok(hasty.local.sends);
  EXPECT_EQ(poll_ok(hasty.remote.receives).immediate(), 1u);
}

TEST_F(Faults, DropOnceMoreIsRetryExceeded) {
  plan(soft::FaultPlan{}.drop(1, 3));
  send(1);
  send(2);
  EXPECT_EQ(state_of_next(), WorkStatus::retry_exceeded);
  EXPECT_EQ(state_of_next(), WorkStatus::flushed);
  EXPECT_TRUE(is_in_error());
  EXPECT_FALSE(poll_within(pair.remote.receives, 1ms)) << "what was dropped never came";
}

TEST_F(Faults, DropWithoutAnAckTimerIsNeverNoticed) {
  ConnectedPair patient{PairOptions{
      .both = [](QueuePairOptions& each) { each.ack_timeout = AckTimeout::unlimited(); }}};
  for (std::uint64_t id = 1; id <= 2; ++id) patient.remote.post(Receive{}, id);
  plan(soft::FaultPlan{}.drop(1));
  for (std::uint32_t id = 1; id <= 2; ++id) patient.local.post(send_immediate(id), id);
  // Long enough for many resends, if there were any.
  EXPECT_FALSE(poll_within(patient.local.sends, 100ms));
  EXPECT_FALSE(poll_within(patient.remote.receives, 1ms));
  EXPECT_EQ(require(patient.local.queue_pair.query_state()), QueuePairState::ready_to_send);
  require(patient.local.queue_pair.move_to_error());
  EXPECT_TRUE(flushed_in_order(poll_many(patient.local.sends, 2), 1));
}

TEST_F(Faults, DelayMakesItAndWhatFollowsLate) {
  plan(soft::FaultPlan{}.delay(1, 30ms));
  const auto start = Clock::now();
  send(1);
  send(2);
  EXPECT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, 1));
  EXPECT_GE(Clock::now() - start, 30ms);
  EXPECT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, 2));
}

TEST_F(Faults, NoReceiveIsTriedAgain) {
  plan(soft::FaultPlan{}.no_receive(1, 2));
  send(1);
  send(2);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 2), 1));
  for (std::uint32_t id = 1; id <= 2; ++id)  // Once, and in order.
    EXPECT_EQ(poll_ok(pair.remote.receives).immediate(), id);
}

// The counterpart of the test above: one more is too many, so those two did happen.
TEST_F(Faults, NoReceiveOnceMoreThanThereAreRetriesFails) {
  plan(soft::FaultPlan{}.no_receive(1, 3));
  send(1);
  EXPECT_EQ(state_of_next(), WorkStatus::rnr_retry_exceeded);
  EXPECT_TRUE(is_in_error());
}

TEST_F(Faults, LossesAndMissingReceivesAreCountedApart) {
  // As many of each as there are retries. Together they would be too many.
  plan(soft::FaultPlan{}.drop(1, 2).no_receive(1, 2));
  const auto start = Clock::now();
  send(1);
  poll_ok(pair.local.sends);
  EXPECT_GE(Clock::now() - start, 2 * kAckTimeout) << "the losses happened";
  EXPECT_EQ(poll_ok(pair.remote.receives).immediate(), 1u);
}

TEST_F(Faults, LossesLeaveNoMoreRetriesForMissingReceives) {
  plan(soft::FaultPlan{}.drop(1, 2).no_receive(1, 3));
  send(1);
  EXPECT_EQ(state_of_next(), WorkStatus::rnr_retry_exceeded);
}

TEST_F(Faults, FailEndsWithTheStatus) {
  plan(soft::FaultPlan{}.fail(2, WorkStatus::remote_operation));
  for (std::uint64_t id = 1; id <= 3; ++id) send(id);
  EXPECT_EQ(state_of_next(), WorkStatus::success);
  EXPECT_EQ(state_of_next(), WorkStatus::remote_operation);
  EXPECT_EQ(state_of_next(), WorkStatus::flushed);
  EXPECT_TRUE(is_in_error());
}

TEST_F(Faults, PortGoesDownAndComesUp) {
  plan(soft::FaultPlan{}.port_down(1, 40ms));
  const auto start = Clock::now();
  send(1);
  const PortState state = require(pair.context.query_port(1)).state;
  // If this thread was held up, the port may be up again.
  EXPECT_TRUE(state == PortState::down || Clock::now() - start >= 40ms);
  EXPECT_TRUE(eventually([&] { return pair.context.events().has(EventType::port_error); }));
  EXPECT_TRUE(
      eventually([&] { return pair.local.queue_pair.events().has(EventType::port_error); }));
  poll_ok(pair.local.sends);
  EXPECT_GE(Clock::now() - start, 40ms) << "nothing passes a port that is down";
  EXPECT_TRUE(eventually([&] { return pair.context.events().has(EventType::port_active); }));
  EXPECT_EQ(require(pair.context.query_port(1)).state, PortState::active);
}

TEST_F(Faults, PortDownForLongerThanTheRetriesFails) {
  plan(soft::FaultPlan{}.port_down(1, 10s));
  send(1);
  EXPECT_EQ(state_of_next(), WorkStatus::retry_exceeded);
}

TEST_F(Faults, OverrunBreaksTheQueueAndItsQueuePairs) {
  plan(soft::FaultPlan{}.overrun(1));
  send(1);
  EXPECT_TRUE(
      eventually([&] { return pair.local.sends.events().has(EventType::completion_queue_error); }));
  EXPECT_TRUE(is_in_error());
}

TEST_F(Faults, RemovedDeviceFlushesAndRefuses) {
  pair.local.post(Receive{}, 70);
  plan(soft::FaultPlan{}.remove_device(1));
  send(1);
  EXPECT_TRUE(eventually([&] { return pair.context.events().has(EventType::device_fatal); }));
  EXPECT_TRUE(flushed_in_order({poll_one(pair.local.receives)}, 70));
  EXPECT_TRUE(is_in_error());
  EXPECT_FALSE(unsafe::post(pair.local.queue_pair, send_immediate(2), WrId{2}));
}

TEST_F(Faults, RemovedDeviceMakesNothingNew) {
  std::array<std::byte, 4096> memory{};
  plan(soft::FaultPlan{}.remove_device(1));
  send(1);
  soft::set_behaviour({});  // It stays away.
  const auto refused = [](const auto& made) { return !made && made.error().os_error == EIO; };
  EXPECT_TRUE(refused(pair.domain.allocate(100)));
  EXPECT_TRUE(refused(pair.domain.register_local(memory)));
  EXPECT_TRUE(refused(pair.context.allocate_domain()));
  EXPECT_TRUE(refused(pair.context.create_completion_queue({.depth = 16})));
  EXPECT_TRUE(refused(pair.context.create_completion_channel()));
  ConnectedPair another;  // Who opens it again has a new one.
  exchange(another);
}

TEST_F(Faults, NthControlCallFails) {
  plan(soft::FaultPlan{}.fail_call(2, ENOMEM));
  EXPECT_TRUE(succeeds(pair.context.allocate_domain()));
  const auto failed = pair.context.allocate_domain();
  EXPECT_TRUE(fails_with(failed, Errc::out_of_resources));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().os_error, ENOMEM);
  EXPECT_TRUE(succeeds(pair.context.allocate_domain()));
}

TEST_F(Faults, EveryControlCallOfAConnectionMayFail) {
  // Whatever fails, what was created so far is undone, and the next attempt works.
  int failures = 0;
  for (std::uint64_t call = 1; call < 60; ++call) {
    plan(soft::FaultPlan{}.fail_call(call, EIO));
    try {
      ConnectedPair another;
      exchange(another);
    } catch (const SetupFailed&) {
      ++failures;
    }
  }
  soft::set_behaviour({});
  EXPECT_GT(failures, 8);
  ConnectedPair another;
  exchange(another);
}

class Deferred : public Faults {
 protected:
  static void defer(std::uint64_t seed, std::chrono::nanoseconds most) {
    soft::set_behaviour({.mode = soft::Mode::deferred, .seed = seed, .max_delay = most});
  }
};

TEST_F(Deferred, MovesTheSameData) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    defer(seed, 200us);
    ConnectedPair another;
    exchange(another);
  }
}

TEST_F(Deferred, BufferChangedTooEarlyArrivesChanged) {
  ExposedMemory memory(pair.domain, 512, kRemoteAccess);
  int changed = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    defer(seed, 100ms);
    std::ranges::fill(buffer.bytes(), std::byte{1});
    pair.local.post(Write{buffer.gather(0, 512), memory.remote()}, seed);
    std::ranges::fill(buffer.bytes(), std::byte{2});  // Too early: this is the mistake.
    poll_ok(pair.local.sends);
    changed += memory.bytes()[0] == std::byte{2} ? 1 : 0;
  }
  EXPECT_GT(changed, 0);
}

TEST_F(Deferred, InlineDataIsTakenDuringThePost) {
  defer(3, 10ms);
  ExposedMemory memory(pair.domain, 32, kRemoteAccess);
  std::ranges::fill(buffer.bytes(), std::byte{1});
  pair.local.post(Write{buffer.gather(0, 32), memory.remote(), {.inlined = true}}, 1);
  std::ranges::fill(buffer.bytes(), std::byte{2});
  poll_ok(pair.local.sends);
  EXPECT_TRUE(all_equal(memory.bytes(), std::byte{1}));
}

TEST_F(Deferred, KeepsTheOrderOfAQueuePair) {
  defer(7, 300us);
  for (std::uint64_t id = 1; id <= 8; ++id) send(id);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 8), 1));
  for (std::uint32_t id = 1; id <= 8; ++id)
    EXPECT_EQ(poll_ok(pair.remote.receives).immediate(), id);
}

TEST_F(Deferred, SameSeedSameTimes) {
  const auto times = [](std::uint64_t seed) {
    defer(seed, std::chrono::hours{1});
    std::array<std::int64_t, 16> found{};
    const auto base = engine::next_operation().not_before_ns;
    for (auto& each : found)
      each = static_cast<std::int64_t>(engine::next_operation().not_before_ns - base);
    return found;
  };
  const auto one = times(5);
  const auto again = times(5);
  const auto other = times(6);
  // The times differ by what passes between two calls, but the delays do not. Those of other seeds
  // differ by many minutes.
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_LT(std::abs(one[i] - again[i]), std::chrono::nanoseconds{1min}.count()) << i;
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace verbatim::test
