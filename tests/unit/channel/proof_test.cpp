// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a deadline returns memory only when the device has stopped; each step of stopping it that
//       fails is followed by a stronger one, and if none works the memory is never returned.
// Method: a scripted device refuses one step after the other.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

#include "support/scripted_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNotStopped = "the device cannot be stopped";

class Proof : public ScriptedDevice {
 protected:
  /// Lets a deadline pass. The buffer must come back after one attempt to destroy the queue pair.
  void expect_proof_by_destroying(std::size_t errors) {
    auto [memory, result] = channel().receive(buffer()).wait(0ms);
    EXPECT_TRUE(fails_with(result, Errc::timed_out));
    EXPECT_TRUE(memory);
    EXPECT_EQ(script.errors, errors);
    EXPECT_EQ(script.destroys, 1u);
  }
  /// Lets a deadline pass on a device that gives the markers back late: that of the sends at the
  /// fifth empty poll in the error state, that of the receives at the eighth. Returns how many
  /// polls in that state were empty.
  std::size_t empty_polls_until_both_markers_are_back(const WaitPolicy& policy) {
    open_channel({.flush_timeout = 1h, .wait = policy});  // However slow the machine is.
    script.flushes = false;
    std::size_t empty = 0;
    script.on_empty = [&] {
      if (script.state != IBV_QPS_ERR) return;
      if (++empty == 5) script.complete(script.sends.back().id, IBV_WC_WR_FLUSH_ERR);
      if (empty == 8) script.complete(script.receives.back().id, IBV_WC_WR_FLUSH_ERR);
    };
    auto [memory, result] = channel().receive(buffer()).wait(0ms);
    script.on_empty = {};
    EXPECT_TRUE(fails_with(result, Errc::timed_out));
    EXPECT_TRUE(memory);
    EXPECT_EQ(script.destroys, 0u);
    return empty;
  }
};

// ---- (1) and (2): the error state, and a marker behind everything -------------------------------

TEST_F(Proof, DeadlineMovesToErrorAndWaitsForAMarkerInEachQueue) {
  open_channel();
  auto sending = channel().send(buffer());
  auto receiving = channel().receive(buffer());
  EXPECT_TRUE(fails_with(receiving.wait(0ms).result, Errc::timed_out));
  EXPECT_EQ(script.errors, 1u);
  EXPECT_EQ(script.destroys, 0u);
  ASSERT_EQ(script.sends.size(), 2u);
  EXPECT_EQ(script.sends[1].state, IBV_QPS_ERR);
  EXPECT_EQ(script.sends[1].elements, 0);
  EXPECT_NE(script.sends[1].flags & IBV_SEND_SIGNALED, 0u);
  ASSERT_EQ(script.receives.size(), 2u);
  EXPECT_EQ(script.receives[1].state, IBV_QPS_ERR);
  EXPECT_EQ(script.receives[1].elements, 0);
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::timed_out));
  EXPECT_EQ(channel().cause()->code, Errc::timed_out);
}

/// Like rxe.
TEST_F(Proof, DeviceThatLooksForReceivesOnlyAtTheTransitionGivesTheMarkerBack) {
  open_channel({.flush_timeout = 10s});
  script.flushes_at_the_transition = true;
  auto receiving = channel().receive(buffer());
  EXPECT_TRUE(fails_with(receiving.wait(0ms).result, Errc::timed_out));
  EXPECT_EQ(script.destroys, 0u);
}

/// A wait that never gets as far as sleeping, and so looks once per turn.
TEST_F(Proof, TheWaitEndsOnlyWhenBothMarkersAreBack) {
  constexpr auto kAlways = std::chrono::nanoseconds::max();
  EXPECT_EQ(empty_polls_until_both_markers_are_back({.spin = kAlways}), 8u);
}

/// Before it sleeps, it arms the queue and looks once more. That look takes the marker of the
/// receives, so the next one finds nothing and sees the end.
TEST_F(Proof, TheWaitThatSleepsEndsOnlyWhenBothMarkersAreBack) {
  EXPECT_EQ(empty_polls_until_both_markers_are_back({.spin = 0ns, .yield = 0ns}), 9u);
}

TEST_F(Proof, RequestIsOverWhenTheMarkerBehindItIs) {
  open_channel();
  script.flushes_only_markers = true;
  auto [memory, result] = channel().receive(buffer()).wait(0ms);
  EXPECT_TRUE(fails_with(result, Errc::timed_out));
  EXPECT_TRUE(memory);
  EXPECT_EQ(script.destroys, 0u);
}

TEST_F(Proof, WorkThatFinishesWhileTheDeviceIsStoppedHasSucceeded) {
  open_channel();
  auto sending = channel().send(buffer());
  // After the poll that finds the time over.
  script.on_empty = [&, empty = 0]() mutable {
    if (++empty == 2) script.complete(script.sends[0].id);
  };
  EXPECT_TRUE(succeeds(sending.wait(0ms).result));
  ASSERT_TRUE(channel().cause());
  EXPECT_EQ(channel().cause()->code, Errc::timed_out);
}

TEST_F(Proof, MarkersFitWhenTheQueuesAreFull) {
  open_channel({.max_sends = 3, .max_receives = 2});
  std::vector<Pending<Buffer>> all;
  for (int i = 0; i < 3; ++i) all.push_back(channel().send(buffer()));
  for (int i = 0; i < 2; ++i) all.push_back(channel().receive(buffer()));
  EXPECT_TRUE(fails_with(all[0].wait(0ms).result, Errc::timed_out));
  EXPECT_EQ(script.sends.size(), 4u);
  EXPECT_EQ(script.receives.size(), 3u);
  EXPECT_LE(4u, channel().limits().max_send_requests);
  EXPECT_LE(3u, channel().limits().max_receive_requests);
}

// ---- (3): the queue pair is destroyed -----------------------------------------------------------

TEST_F(Proof, RefusedErrorStateDestroys) {
  open_channel();
  script.error_refusal = EIO;
  expect_proof_by_destroying(1);
}

TEST_F(Proof, RefusedSendMarkerDestroys) {
  open_channel();
  script.send_marker_refusal = ENOMEM;
  expect_proof_by_destroying(1);
}

TEST_F(Proof, RefusedReceiveMarkerDestroys) {
  open_channel();
  script.receive_marker_refusal = ENOMEM;
  expect_proof_by_destroying(1);
}

TEST_F(Proof, BrokenCompletionQueueDestroys) {
  open_channel();
  auto receiving = channel().receive(buffer());
  script.poll_result = -EIO;
  auto [memory, result] = receiving.wait();
  EXPECT_TRUE(fails_with(result, Errc::device_failed));
  EXPECT_TRUE(memory);
  EXPECT_EQ(script.destroys, 1u);
}

TEST_F(Proof, FlushThatExceedsItsBoundDestroys) {
  open_channel({.flush_timeout = 5ms});
  script.flushes = false;
  const auto start = std::chrono::steady_clock::now();
  expect_proof_by_destroying(1);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 5ms);
}

TEST_F(Proof, LongestBoundOfTheFlushIsNotOverAtOnce) {
  open_channel({.flush_timeout = std::chrono::nanoseconds::max()});
  script.flushes = false;
  script.on_empty = [&, empty = 0]() mutable {
    if (script.state != IBV_QPS_ERR || ++empty != 4) return;
    script.complete(script.sends.back().id, IBV_WC_WR_FLUSH_ERR);
    script.complete(script.receives.back().id, IBV_WC_WR_FLUSH_ERR);
  };
  EXPECT_TRUE(fails_with(channel().receive(buffer()).wait(0ms).result, Errc::timed_out));
  EXPECT_EQ(script.destroys, 0u);
}

TEST_F(Proof, ReceivesBeforeTheConnectionAreProvenByDestroying) {
  auto prepared = prepare();
  auto [memory, result] = prepared.receive(buffer()).wait(0ms);
  EXPECT_TRUE(fails_with(result, Errc::timed_out));
  EXPECT_TRUE(memory);
  EXPECT_EQ(script.errors, 0u);
  EXPECT_EQ(script.destroys, 1u);
  // There is no queue pair left that could be connected.
  const Endpoint self = prepared.endpoint();
  EXPECT_TRUE(fails_with(std::move(prepared).connect(self), Errc::timed_out));
}

TEST_F(Proof, WhatIsInTheQueueBeforeTheQueuePairGoesHasSucceeded) {
  open_channel();
  std::vector<Pending<Buffer>> sending;
  for (int i = 0; i < 40; ++i) sending.push_back(channel().send(buffer()));
  auto receiving = channel().receive(buffer());
  // All sends complete between the last poll of the wait and the end. Some devices remove the
  // completions of a queue pair together with it.
  script.error_refusal = EIO;
  script.on_empty = [&, empty = 0]() mutable {
    if (++empty == 2) script.complete_all(script.sends);
  };
  EXPECT_TRUE(fails_with(receiving.wait(0ms).result, Errc::timed_out));
  for (auto& each : sending) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(Proof, ChannelWhoseQueuePairWasDestroyedCanBeRecycled) {
  open_channel({.max_sends = 3, .max_receives = 3});
  for (int round = 0; round < 3; ++round) {
    script.error_refusal = EIO;
    EXPECT_TRUE(fails_with(channel().receive(buffer()).wait(0ms).result, Errc::timed_out));
    script.error_refusal = 0;
    Channel again = connect(require(std::move(channel()).recycle()));
    EXPECT_FALSE(again.cause());
    EXPECT_EQ(again.free_sends(), 3u);
    EXPECT_EQ(again.free_receives(), 3u);
    auto sending = again.send(buffer());
    script.complete(script.sends.back().id);
    EXPECT_TRUE(succeeds(sending.wait().result));
    channel() = std::move(again);
  }
}

// ---- Nothing works ------------------------------------------------------------------------------

class NoProof : public Proof {
 protected:
  void nothing_works() {
    script.error_refusal = EIO;
    script.destroy_refusal = EBUSY;
  }
};

TEST_F(NoProof, OwnedBufferIsKeptForEver) {
  in_child([&] {
    open_channel();
    auto receiving = channel().receive(buffer());
    auto several = channel().receive(std::array{buffer(), buffer()});
    nothing_works();
    const int before = live();
    auto [memory, result] = receiving.wait(0ms);
    EXPECT_TRUE(fails_with(result, Errc::timed_out));
    EXPECT_FALSE(memory);
    EXPECT_EQ(quarantined_buffers(), 1u);
    auto [both, second] = several.wait();
    EXPECT_TRUE(fails_with(second, Errc::timed_out));
    EXPECT_FALSE(both[0] || both[1]);
    EXPECT_EQ(live(), before);  // Its memory is still registered.
    EXPECT_TRUE(fails_with(std::move(channel()).recycle(), Errc::device_failed));
  });
}

TEST_F(NoProof, BuffersOfDroppedHandlesAreKeptToo) {
  in_child([&] {
    open_channel();
    {
      const auto send = channel().send(buffer());
      const auto other = channel().send(buffer());
      const auto receive = channel().receive(buffer());
      const auto large = channel().receive(std::array{buffer(), buffer()});
    }
    auto late = channel().receive(buffer());
    const int before = live();
    nothing_works();
    channel().cancel();
    static_cast<void>(channel().poll());
    EXPECT_EQ(quarantined_buffers(), 4u);  // Operations: one of them has two.
    {
      const auto dropped = std::move(late);
    }
    EXPECT_EQ(quarantined_buffers(), 5u);
    EXPECT_EQ(live(), before);
    close_channel();
    EXPECT_EQ(live(), before);  // A device that is not sure also keeps its queue pair.
  });
}

TEST_F(NoProof, WorkThatWasOverBeforeComesBack) {
  in_child([&] {
    open_channel();
    auto sending = channel().send(buffer());
    auto receiving = channel().receive(buffer());
    script.complete(script.sends[0].id);
    nothing_works();
    EXPECT_FALSE(receiving.wait(0ms).buffer);
    auto [memory, result] = sending.wait();
    EXPECT_TRUE(succeeds(result));
    EXPECT_TRUE(memory);
  });
}

TEST_F(NoProof, OpenScopeThatLentNothingGoesOn) {
  in_child([&] {
    open_channel();
    auto receiving = channel().receive(buffer());
    const auto outcome = channel().scope([&](Scope&) {
      nothing_works();
      EXPECT_FALSE(receiving.wait(0ms).buffer);
    });
    EXPECT_TRUE(outcome.has_value());
  });
}

using NoProofDeathTest = NoProof;

TEST_F(NoProofDeathTest, BlockingCallAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  open_channel();
  Buffer memory = buffer();
  nothing_works();
  EXPECT_DEATH(static_cast<void>(channel().receive(memory.scatter(), 0ms)), kNotStopped);
  script.destroy_refusal = 0;
}

TEST_F(NoProofDeathTest, ScopeAbortsBeforeTheWaitInItReturns) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  open_channel();
  Buffer memory = buffer();
  EXPECT_DEATH(static_cast<void>(channel().scope([&](Scope& scope) {
                 const auto operation = scope.post(Receive{memory.scatter()});
                 nothing_works();
                 static_cast<void>(scope.wait(operation, 0ms));
                 std::fputs("the wait returned\n", stderr);
                 std::_Exit(0);
               })),
               kNotStopped);
}

TEST_F(NoProofDeathTest, ScopeAbortsAlsoWhenSomethingElseTimesOut) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  open_channel();
  Buffer memory = buffer();
  auto owned = channel().receive(buffer());
  EXPECT_DEATH(static_cast<void>(channel().scope([&](Scope& scope) {
                 scope.post_detached(Send{memory.gather()});
                 nothing_works();
                 static_cast<void>(owned.wait(0ms));
                 std::_Exit(0);
               })),
               kNotStopped);
}

TEST_F(NoProofDeathTest, BatchOfAScopeAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  open_channel();
  Buffer memory = buffer();
  const std::vector<Send<1>> works(3, Send{memory.gather()});
  EXPECT_DEATH(static_cast<void>(channel().scope([&](Scope& scope) {
                 static_cast<void>(scope.post(std::span{works}));
                 nothing_works();
                 channel().cancel();
                 static_cast<void>(channel().poll());
                 std::_Exit(0);
               })),
               kNotStopped);
}

}  // namespace
}  // namespace verbatim::test
