// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each operation gets its own completion, once, whatever else the device reports; and a post
//       that the device refuses, wholly or in part, loses neither credit nor memory.
// Method: a scripted device that reports wrong ids, reports twice, refuses, or takes a part.
// Covers: channel/waiting.cpp
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "support/pattern.hpp"
#include "support/scripted_device.hpp"
#include "support/seed.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Completions = ScriptedDevice;

TEST_F(Completions, OfAnEarlierUseOfTheSlotAreDropped) {
  open_channel({.max_sends = 1});
  auto first = channel().send(buffer());
  const std::uint64_t old = script.sends[0].id;
  script.complete(old);
  EXPECT_TRUE(succeeds(first.wait().result));
  auto second = channel().send(buffer());
  const std::uint64_t id = script.sends[1].id;
  EXPECT_EQ(id - old, detail::kGeneration);  // The same slot.
  script.complete(old, IBV_WC_REM_ACCESS_ERR);
  EXPECT_FALSE(second.ready());
  script.complete(old);
  script.complete(id, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
  auto [memory, result] = second.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(result->opcode(), Opcode::read);
  EXPECT_FALSE(channel().cause());
  EXPECT_EQ(channel().free_sends(), 1u);
}

TEST_F(Completions, WithIdsOfNobodyAreDropped) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(replay(seed));
  Random random{seed};
  open_channel({.max_sends = 8, .max_receives = 3});
  for (int round = 0; round < 100; ++round) {
    auto sending = channel().send(buffer());
    const std::uint64_t id = script.sends.back().id;
    for (int i = 0; i < 30; ++i) {
      std::uint64_t wrong = random.next();
      // Half of them are close: another slot, another generation.
      if (i % 2 == 0) wrong = id ^ (std::uint64_t{1} << random.up_to(40));
      if (wrong != id) script.complete(wrong, IBV_WC_REM_OP_ERR);
    }
    script.complete(id);
    ASSERT_TRUE(succeeds(sending.wait().result)) << round;
    ASSERT_FALSE(channel().cause());
    ASSERT_EQ(channel().free_sends(), 8u);
    ASSERT_EQ(channel().free_receives(), 3u);
  }
}

TEST_F(Completions, ThatNameAFreeSlotChangeNothing) {
  open_channel({.max_sends = 2});
  auto sending = channel().send(buffer());
  const std::uint64_t id = script.sends[0].id;
  script.complete(id);
  ASSERT_TRUE(succeeds(sending.wait().result));
  script.complete(id + detail::kGeneration, IBV_WC_REM_OP_ERR);  // The next id of the slot.
  EXPECT_EQ(require(channel().poll()), 0u);                      // It belongs to nobody.
  EXPECT_FALSE(channel().cause());
  auto next = channel().send(buffer());
  ASSERT_EQ(script.sends[1].id, id + detail::kGeneration);
  EXPECT_FALSE(next.ready());
  script.complete(script.sends[1].id);
  EXPECT_TRUE(succeeds(next.wait().result));
}

TEST_F(Completions, SecondOneOfAnOperationIsDropped) {
  open_channel();
  auto sending = channel().send(buffer());
  script.complete(script.sends[0].id, IBV_WC_SUCCESS, IBV_WC_SEND);
  script.complete(script.sends[0].id, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(require(channel().poll()), 1u);
  EXPECT_TRUE(succeeds(sending.wait().result));
  EXPECT_FALSE(channel().cause());
}

TEST_F(Completions, ThatComeAfterTheEndDoNotChangeAResult) {
  open_channel();
  auto sending = channel().send(buffer());
  auto receiving = channel().receive(buffer());
  script.flushes_only_markers = true;
  EXPECT_TRUE(fails_with(receiving.wait(0ms).result, Errc::timed_out));
  script.complete(script.sends[0].id);
  static_cast<void>(channel().poll());
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::timed_out));
}

TEST_F(Completions, FlushedWorkWithoutAReasonEndsTheChannelToo) {
  open_channel();
  auto receiving = channel().receive(buffer());
  script.complete(script.receives[0].id, IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::work_failed));
  ASSERT_TRUE(channel().cause());
  EXPECT_EQ(channel().cause()->value, static_cast<std::uint64_t>(WorkStatus::flushed));
  EXPECT_TRUE(succeeds(std::move(channel()).recycle()));
}

TEST_F(Completions, ReasonThatComesAfterTheFlushedWorkIsTheCause) {
  open_channel({.flush_timeout = 5ms});
  auto receiving = channel().receive(buffer());
  auto sending = channel().send(buffer());
  script.flushes_only_markers = true;
  script.complete(script.receives[0].id, IBV_WC_WR_FLUSH_ERR);
  script.on_empty = [&, told = false]() mutable {
    if (script.errors == 0 || std::exchange(told, true)) return;
    script.complete(script.sends[0].id, IBV_WC_REM_ACCESS_ERR);
  };
  script.flushes = false;
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::work_failed));
  EXPECT_EQ(channel().cause()->value, static_cast<std::uint64_t>(WorkStatus::remote_access));
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::work_failed));
}

TEST_F(Completions, BrokenQueueIsSeenByWhoOnlyAsks) {
  open_channel();
  auto receiving = channel().receive(buffer());
  script.poll_result = -EIO;
  EXPECT_TRUE(receiving.ready());
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::device_failed));
  EXPECT_EQ(channel().cause()->code, Errc::device_failed);
}

// ---- Refused posts ------------------------------------------------------------------------------

using Refusals = ScriptedDevice;

TEST_F(Refusals, FullQueueIsToldWithoutAskingTheDevice) {
  open_channel({.max_sends = 2, .max_receives = 2});
  std::vector<Pending<Buffer>> all;
  for (int i = 0; i < 2; ++i) all.push_back(channel().send(buffer()));
  for (int i = 0; i < 2; ++i) all.push_back(channel().receive(buffer()));
  EXPECT_TRUE(fails_with(channel().send(buffer()).wait().result, Errc::would_block));
  EXPECT_TRUE(fails_with(channel().receive(buffer()).wait().result, Errc::would_block));
  EXPECT_EQ(script.sends.size(), 2u);
  EXPECT_EQ(script.receives.size(), 2u);
  EXPECT_EQ(script.polls, 0u);
  script.complete_all(script.sends);
  script.complete_all(script.receives);
  for (auto& each : all) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(Refusals, DeviceWithoutRoomIsWouldBlockAndLosesNoCredit) {
  open_channel({.max_sends = 2, .max_receives = 2});
  Buffer memory = buffer();
  for (int i = 0; i < 10; ++i) {
    script.send_refusal = script.receive_refusal = ENOMEM;
    auto [back, result] = channel().send(std::move(memory)).wait();
    EXPECT_TRUE(fails_with(result, Errc::would_block));
    ASSERT_TRUE(back);
    EXPECT_TRUE(fails_with(channel().send(back.gather()), Errc::would_block));
    EXPECT_TRUE(fails_with(channel().receive(back.scatter()), Errc::would_block));
    memory = std::move(back);
  }
  EXPECT_EQ(channel().free_sends(), 2u);
  EXPECT_EQ(channel().free_receives(), 2u);
  EXPECT_FALSE(channel().cause());
  script.send_refusal = 0;
  auto sending = channel().send(std::move(memory));
  script.complete(script.sends.back().id);
  EXPECT_TRUE(succeeds(sending.wait().result));
}

TEST_F(Refusals, DetachedPostWaitsUntilTheDeviceHasRoom) {
  open_channel({.timeout = 10s});
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    scope.post_detached(Send{memory.gather()});
    script.send_refusal = ENOMEM;
    // The device frees its place when the completion is polled.
    script.empty_polls = 3;
    script.complete(script.sends[0].id);
    script.on_empty = [&] {
      if (script.empty_polls == 0) script.send_refusal = 0;
    };
    scope.post_detached(Send{memory.gather()});
    EXPECT_EQ(script.sends.size(), 2u);
    script.complete(script.sends[1].id);
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(channel().free_sends(), 127u);
}

TEST_F(Refusals, DetachedPostDoesNotWaitForEverForTheDevice) {
  open_channel({.timeout = 20ms});
  Buffer memory = buffer();
  script.send_refusal = ENOMEM;
  const auto outcome =
      channel().scope([&](Scope& scope) { scope.post_detached(Send{memory.gather()}); });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_EQ(outcome.error().operations[0].code, Errc::would_block);
  ASSERT_TRUE(channel().cause());
  EXPECT_EQ(channel().cause()->code, Errc::timed_out);
}

TEST_F(Refusals, DetachedPostDoesNotWaitForHandlesOfItsOwnThread) {
  open_channel({.max_sends = 2, .timeout = 1h});
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    const Operation first = scope.post(Send{memory.gather()});
    const Operation second = scope.post(Send{memory.gather()});
    script.complete_all(script.sends);
    scope.post_detached(Send{memory.gather()});  // Both are done, and keep their places.
    EXPECT_TRUE(succeeds(scope.wait(first)));
    EXPECT_TRUE(succeeds(scope.wait(second)));
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_EQ(outcome.error().operations[0].code, Errc::would_block);
  EXPECT_FALSE(channel().cause());
}

TEST_F(Refusals, DetachedPostWaitsForTheOneAmongHandlesThatGivesItsPlaceBack) {
  open_channel({.max_sends = 2, .timeout = 1h});
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    const Operation first = scope.post(Send{memory.gather()});
    scope.post_detached(Send{memory.gather()});
    script.on_empty = [&] {
      if (script.sends.size() == 2 && script.completions.empty())
        script.complete(script.sends[1].id);
    };
    scope.post_detached(Send{memory.gather()});
    script.on_empty = {};
    ASSERT_EQ(script.sends.size(), 3u);
    script.complete(script.sends[0].id);
    script.complete(script.sends[2].id);
    EXPECT_TRUE(succeeds(scope.wait(first)));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(Refusals, OldOnesKeepTheirCode) {
  open_channel({.max_sends = 1});
  std::vector<Pending<Buffer>> refused;
  auto sending = channel().send(buffer());
  const auto outcome = channel().scope([&](Scope& scope) {
    const std::vector<Send<1>> none;
    const auto empty = scope.post(std::span{none});
    for (int i = 0; i < 100; ++i) refused.push_back(channel().send(buffer()));
    EXPECT_TRUE(fails_with(scope.wait(empty), Errc::invalid_argument));
  });
  EXPECT_TRUE(outcome.has_value());
  for (auto& each : refused) {
    auto [memory, result] = each.wait();
    EXPECT_TRUE(fails_with(result, Errc::would_block));
    EXPECT_TRUE(memory);
  }
  script.complete(script.sends[0].id);
  EXPECT_TRUE(succeeds(sending.wait().result));
}

// ---- Batches ------------------------------------------------------------------------------------

class Batches : public ScriptedDevice {
 protected:
  Channel& opened = open_channel({.max_sends = 8});  // First, because the rest needs the device.
  Buffer memory = buffer();
  std::vector<Send<1>> works{5, Send{memory.gather()}};

  void TearDown() override {
    {
      const Buffer gone = std::move(memory);
    }
    ScriptedDevice::TearDown();
  }
};

TEST_F(Batches, RefusedAsAWholeCostNothing) {
  script.send_refusal = ENOMEM;
  const auto outcome = channel().scope([&](Scope& scope) {
    EXPECT_TRUE(
        fails_with(scope.wait(scope.post(std::span{std::as_const(works)})), Errc::would_block));
    EXPECT_EQ(channel().free_sends(), 8u);
    script.send_refusal = 0;
    const auto operation = scope.post(std::span{std::as_const(works)});
    ASSERT_EQ(script.sends.size(), 5u);
    script.complete(script.sends[4].id);
    EXPECT_TRUE(succeeds(scope.wait(operation)));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(channel().free_sends(), 8u);
}

TEST_F(Batches, TakenInPartEndTheChannel) {
  script.send_refusal = ENOMEM;
  script.accepted_sends = 2;
  const auto outcome = channel().scope([&](Scope& scope) {
    const auto operation = scope.post(std::span{std::as_const(works)});
    EXPECT_EQ(script.errors, 1u);  // Borrowed memory: the part that was taken is over already.
    EXPECT_FALSE(operation.posted());
    // Not "would block", because trying again would send a part twice.
    EXPECT_TRUE(fails_with(scope.wait(operation), Errc::device_failed));
  });
  EXPECT_TRUE(outcome.has_value());
  ASSERT_TRUE(channel().cause());
  EXPECT_EQ(channel().cause()->os_error, ENOMEM);
  script.send_refusal = 0;
  channel() = connect(require(std::move(channel()).recycle()));
  EXPECT_EQ(channel().free_sends(), 8u);
}

TEST_F(Batches, OfWhichTheDeviceDoesNotSayWhatItTookEndTheChannel) {
  script.send_refusal = EINVAL;
  script.accepted_sends = 2;
  script.name_rejected = false;
  const auto outcome = channel().scope([&](Scope& scope) {
    EXPECT_FALSE(scope.post(std::span{std::as_const(works)}).posted());
    EXPECT_EQ(script.errors, 1u);
  });
  ASSERT_FALSE(outcome.has_value());  // Nobody waited for it.
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_EQ(outcome.error().operations[0].code, Errc::device_failed);
  EXPECT_TRUE(channel().cause());
}

TEST_F(Batches, AreSignaledAtTheEndAndAtEachHalfOfTheQueue) {
  works.assign(8, Send{memory.gather()});
  const auto outcome = channel().scope([&](Scope& scope) {
    const auto operation = scope.post(std::span{std::as_const(works)});
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_EQ((script.sends[i].flags & IBV_SEND_SIGNALED) != 0, i == 3 || i == 7) << i;
    script.complete(script.sends[3].id);
    EXPECT_FALSE(scope.poll(operation));
    script.complete(script.sends[7].id);
    EXPECT_TRUE(succeeds(scope.wait(operation)));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(channel().free_sends(), 8u);
}

TEST_F(Batches, InFlightAtTheEndAreParkedWithTheFirstFailure) {
  const auto outcome = channel().scope([&](Scope& scope) {
    const auto operation = scope.post(std::span{std::as_const(works)});
    script.flushes_only_markers = true;
    script.complete(script.sends[1].id, IBV_WC_REM_ACCESS_ERR);
    const auto done = scope.wait(operation);
    ASSERT_TRUE(fails_with(done, Errc::work_failed));
    EXPECT_EQ(done.error().value, static_cast<std::uint64_t>(WorkStatus::remote_access));
    EXPECT_TRUE(fails_with(scope.wait(operation), Errc::stale));
  });
  EXPECT_TRUE(outcome.has_value());
  channel() = connect(require(std::move(channel()).recycle()));
  EXPECT_EQ(channel().free_sends(), 8u);
}

/// The slot of a failed operation is used again before the channel ends.
TEST_F(Batches, KnowNothingOfEarlierFailures) {
  Buffer other = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    scope.post_detached(Send{memory.gather()});
    const auto waited = scope.post(Receive{other.scatter()});
    script.complete(script.sends[0].id, IBV_WC_REM_OP_ERR);
    script.complete(script.receives[0].id, IBV_WC_SUCCESS, IBV_WC_RECV);
    EXPECT_TRUE(succeeds(scope.wait(waited)));
    const auto operation = scope.post(std::span{std::as_const(works)});
    script.flushes_only_markers = true;
    ASSERT_EQ(script.sends[1].id & 0xff, script.sends[0].id & 0xff) << "not the same slot";
    script.complete(script.sends[2].id, IBV_WC_REM_ACCESS_ERR);
    script.complete(script.sends[5].id, IBV_WC_WR_FLUSH_ERR);
    const auto done = scope.wait(operation);
    ASSERT_TRUE(fails_with(done, Errc::work_failed));
    EXPECT_EQ(done.error().value, static_cast<std::uint64_t>(WorkStatus::remote_access));
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().operations.size(), 1u);
}

TEST_F(Batches, KeepTheOptionsOfEachRequest) {
  works[1].options = {.immediate = 0x01020304};
  works[2].options = {.inlined = true};
  works[3].options = {.fenced = true, .solicited = true};
  const auto outcome = channel().scope([&](Scope& scope) {
    const auto operation = scope.post(std::span{std::as_const(works)});
    ASSERT_EQ(script.sends.size(), 5u);
    const unsigned flags[] = {0, 0, IBV_SEND_INLINE, IBV_SEND_FENCE | IBV_SEND_SOLICITED,
                              IBV_SEND_SIGNALED};
    for (std::size_t i = 0; i < 5; ++i) {
      // A queue of eight is signaled at its half, too.
      const unsigned half = i == 3 ? unsigned{IBV_SEND_SIGNALED} : 0;
      EXPECT_EQ(script.sends[i].flags, flags[i] | half) << i;
      EXPECT_EQ(script.sends[i].opcode, i == 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND) << i;
    }
    script.complete(script.sends[4].id);
    EXPECT_TRUE(succeeds(scope.wait(operation)));
  });
  EXPECT_TRUE(outcome.has_value());
}

}  // namespace
}  // namespace verbatim::test
