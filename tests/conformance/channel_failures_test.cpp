// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: if work fails, or the channel ends for another reason, everything in flight comes back with
//       the reason, in every form; the cause stays, the next post is refused, and the channel can
//       be reconnected.
// Method: each way to fail (failing_work.hpp), and each other end, with each form of operation.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/failing_work.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

// ---- Work that fails ----------------------------------------------------------------------------

class ChannelFailure : public FailingWork {
 protected:
  [[nodiscard]] Pending<Buffer> owned_failing_write() {
    const Write<1> work = failing_write();
    return left.write(filled(kPiece, seed), work.to, {}, work.options);
  }
  /// The channel is over, gives the reason, and accepts no more work in any form.
  void expect_over() {
    ASSERT_TRUE(left.cause());
    EXPECT_TRUE(tells(*left.cause()));
    EXPECT_TRUE(fails_with(left.send(piece(0)), Errc::broken));
    auto [buffer, result] = left.receive(empty(kPiece)).wait();
    EXPECT_TRUE(fails_with(result, Errc::broken));
    EXPECT_TRUE(buffer);
    EXPECT_TRUE(left.scope([&](Scope& scope) {
                      EXPECT_TRUE(fails_with(scope.wait(scope.post(good_write())), Errc::broken));
                    })
                    .has_value());
    EXPECT_TRUE(tells(left.poll()));
    EXPECT_TRUE(tells(left.finish_sends()));
    EXPECT_TRUE(tells(left.close()));
    EXPECT_TRUE(tells(*left.cause()));  // The first reason stays.
  }
};
VERBATIM_EACH_FAILURE(ChannelFailure);

TEST_P(ChannelFailure, BlockingCallTellsTheStatus) {
  fail_next();
  EXPECT_TRUE(tells(left.run(failing_write())));
  expect_over();
}

TEST_P(ChannelFailure, OwnedOperationTellsTheStatusAndGivesTheBufferBack) {
  fail_next();
  auto [buffer, result] = owned_failing_write().wait();
  EXPECT_TRUE(tells(result));
  ASSERT_TRUE(buffer);
  EXPECT_TRUE(holds(buffer.bytes(), seed));
  expect_over();
}

TEST_P(ChannelFailure, SuccessBeforeItStaysASuccess) {
  ASSERT_TRUE(succeeds(left.run(good_write())));
  auto before = left.write(filled(kPiece, seed), window.remote());
  ASSERT_TRUE(eventually([&] { return before.ready(); }));
  fail_next();
  EXPECT_TRUE(tells(owned_failing_write().wait().result));
  EXPECT_TRUE(succeeds(before.wait().result));
  expect_over();
}

TEST_P(ChannelFailure, WhatWasBehindItTellsItsReasonWhateverIsWaitedForFirst) {
  fail_next();
  auto failing = owned_failing_write();
  auto behind = left.send(filled(kPiece, seed));
  auto receiving = left.receive(empty(kPiece));
  for (Pending<Buffer>* const each : {&receiving, &behind, &failing}) {
    auto [buffer, result] = each->wait();
    EXPECT_TRUE(tells(result));
    EXPECT_TRUE(buffer);
  }
  expect_over();
}

TEST_P(ChannelFailure, PollingFindsIt) {
  fail_next();
  auto failing = owned_failing_write();
  EXPECT_TRUE(eventually([&] { return failing.ready(); }));
  EXPECT_TRUE(tells(failing.wait().result));
  expect_over();
}

TEST_P(ChannelFailure, WhoOnlyPollsTheChannelFindsIt) {
  fail_next();
  {
    const auto dropped = owned_failing_write();
  }
  EXPECT_TRUE(eventually([&] { return !left.poll(); }));
  expect_over();
}

TEST_P(ChannelFailure, DroppedHandleOfAFailureEndsTheChannelToo) {
  fail_next();
  {
    auto dropped = owned_failing_write();
    EXPECT_TRUE(eventually([&] { return dropped.ready(); }));
  }
  expect_over();
}

TEST_P(ChannelFailure, InsideABatchIsTheBatchsResult) {
  fail_next();  // Some kinds hit the first request of the batch, others the second.
  const std::array works{good_write(), failing_write(), good_write()};
  const auto outcome = left.scope([&](Scope& scope) {
    const auto batch = scope.post(std::span<const Write<1>>{works});
    const auto behind = scope.post(std::span<const Write<1>>{works});
    EXPECT_TRUE(tells(scope.wait(behind)));
    EXPECT_TRUE(tells(scope.wait(batch)));
  });
  EXPECT_TRUE(outcome.has_value());
  expect_over();
}

TEST_P(ChannelFailure, WaitAnyAndWaitAllEndWithIt) {
  fail_next();
  const auto outcome = left.scope([&](Scope& scope) {
    const std::array operations{scope.post(Receive{place(0)}), scope.post(failing_write()),
                                scope.post(good_write())};
    const std::size_t first = require(scope.wait_any(operations));
    EXPECT_TRUE(tells(scope.wait(operations[first])));
    std::vector<Operation> rest;
    for (std::size_t i = 0; i < operations.size(); ++i)
      if (i != first) rest.push_back(operations[i]);
    EXPECT_TRUE(tells(scope.wait_all(rest)));
    for (const Operation each : operations)
      EXPECT_TRUE(fails_with(scope.wait(each), Errc::stale));  // All results were taken.
  });
  EXPECT_TRUE(outcome.has_value());
  expect_over();
}

TEST_P(ChannelFailure, RecycledChannelIsAsNew) {
  for (int round = 0; round < 3; ++round) {
    fail_next();
    EXPECT_TRUE(tells(left.run(failing_write())));
    faults.reset();
    auto again = require(std::move(left).recycle());
    if (GetParam() == FailureKind::lost_peer) {
      pair = join(std::move(again), require(PreparedChannel::create(domain, few_retries())));
    } else {
      right.cancel();
      static_cast<void>(right.poll());
      pair = join(std::move(again), require(std::move(right).recycle()));
    }
    EXPECT_FALSE(left.cause());
    EXPECT_EQ(left.free_sends(), 127u);
    EXPECT_EQ(left.free_receives(), 127u);
    exchange(left, right);
    exchange(right, left);
  }
}

// ---- Other ends ---------------------------------------------------------------------------------

struct End {
  const char* name;
  Errc code;
  std::function<void(Channel&, Buffer)> happen;
  friend void PrintTo(const End& end, std::ostream* out) { *out << end.name; }
};

class ChannelEnded : public ChannelsAndMemory, public testing::WithParamInterface<End> {
 protected:
  void end() { GetParam().happen(left, empty(kPiece)); }
};
INSTANTIATE_TEST_SUITE_P(
    By, ChannelEnded,
    testing::Values(End{"Deadline", Errc::timed_out,
                        [](Channel& channel, Buffer buffer) {
                          static_cast<void>(channel.receive(std::move(buffer)).wait(5ms));
                        }},
                    End{"Cancel", Errc::cancelled,
                        [](Channel& channel, Buffer) {
                          channel.cancel();
                          static_cast<void>(channel.poll());
                        }},
                    End{"Close", Errc::closed,
                        [](Channel& channel, Buffer) { static_cast<void>(channel.close(5ms)); }}),
    [](const auto& each) { return each.param.name; });

// Nobody receives and nobody sends, so all of it is in flight when the end comes.
TEST_P(ChannelEnded, GivesEveryFormBackWithTheReason) {
  auto sending = left.send(filled(kPiece, seed));
  auto receiving = left.receive(empty(kPiece));
  {
    const auto dropped = left.receive(empty(kPiece));
  }
  const std::vector<Send<1>> works(3, Send{piece(0)});
  const auto outcome = left.scope([&](Scope& scope) {
    const std::array waited{scope.post(Send{piece(0)}), scope.post(Receive{place(0)}),
                            scope.post(std::span<const Send<1>>{works})};
    static_cast<void>(scope.post(Send{piece(1)}));
    static_cast<void>(scope.post(Receive{place(1)}));
    static_cast<void>(scope.post(std::span<const Send<1>>{works}));
    scope.post_detached(Send{piece(2)});
    scope.post_detached(Receive{place(2)});
    end();
    for (const Operation each : waited) EXPECT_TRUE(fails_with(scope.wait(each), GetParam().code));
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_FALSE(outcome.error().closure);
  EXPECT_EQ(outcome.error().operations.size(), 5u);
  for (const Error& each : outcome.error().operations)
    EXPECT_EQ(each.code, GetParam().code) << to_string(each);
  for (Pending<Buffer>* const each : {&sending, &receiving}) {
    auto [buffer, result] = each->wait();
    EXPECT_TRUE(fails_with(result, GetParam().code));
    EXPECT_TRUE(buffer);
  }
  ASSERT_TRUE(left.cause());
  EXPECT_EQ(left.cause()->code, GetParam().code);
}

TEST_P(ChannelEnded, RefusesTheNextPostInEveryForm) {
  end();
  EXPECT_TRUE(fails_with(left.send(piece(0)), Errc::broken));
  EXPECT_TRUE(fails_with(left.receive(empty(kPiece)).wait().result, Errc::broken));
  const std::vector<Send<1>> works(3, Send{piece(0)});
  const auto outcome = left.scope([&](Scope& scope) {
    const auto refused = scope.post(Send{piece(0)});
    EXPECT_FALSE(refused.posted());
    EXPECT_EQ(require(scope.wait_any(std::span{&refused, 1})), 0u);
    const auto polled = scope.poll(refused);
    ASSERT_TRUE(polled);
    EXPECT_TRUE(fails_with(*polled, Errc::broken));
    EXPECT_TRUE(fails_with(scope.wait(refused), Errc::stale));  // Taken, like any other result.
    EXPECT_TRUE(fails_with(scope.wait(scope.post(std::span<const Send<1>>{works})), Errc::broken));
    scope.post_detached(Send{piece(0)});
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);  // The one that no wait has reported.
  EXPECT_EQ(outcome.error().operations[0].code, Errc::broken);
  if (capabilities().atomics) {
    const SharedRegion word = require(domain.allocate_shared(8, Access::remote_atomic));
    EXPECT_TRUE(
        fails_with(left.fetch_add(require(RemoteAtomic::at(word.remote())), 1), Errc::broken));
  }
}

TEST_P(ChannelEnded, TellsItsCauseForEver) {
  end();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fails_with(left.poll(), GetParam().code));
    EXPECT_TRUE(fails_with(left.finish_sends(), GetParam().code));
    // Closing again is not a failure, but closing a broken channel is.
    if (GetParam().code == Errc::closed)
      EXPECT_TRUE(succeeds(left.close()));
    else
      EXPECT_TRUE(fails_with(left.close(), GetParam().code));
    left.cancel();
    EXPECT_EQ(left.cause()->code, GetParam().code);
  }
}

TEST_P(ChannelEnded, CanBeConnectedAnewAgainAndAgain) {
  for (int round = 0; round < 10; ++round) {
    exchange(left, right);
    end();
    right.cancel();
    static_cast<void>(right.poll());
    pair = join(require(std::move(left).recycle()), require(std::move(right).recycle()));
    EXPECT_FALSE(left.cause());
    EXPECT_EQ(left.free_sends(), 127u);
    EXPECT_EQ(left.free_receives(), 127u);
  }
  exchange(left, right);
}

// ---- Faults of the software device --------------------------------------------------------------

class ChannelFaults : public ChannelsAndMemory {
 protected:
  ChannelFaults()
      : ChannelsAndMemory({.flush_timeout = 200ms,
                           .ack_timeout = require(AckTimeout::at_least(1ms)),
                           .max_ack_retries = require(MaxAckRetries::limited(4))}) {}
  void SetUp() override {
    if (!on_soft_device()) GTEST_SKIP() << "the device has no fault plans";
  }
  /// Writes in each form; the fault hits the first. Returns the errors that were reported.
  [[nodiscard]] std::vector<Error> run_all(soft::FaultPlan plan) {
    std::vector<Error> told;
    const Faults faults{std::move(plan)};
    auto owned = left.write(filled(kPiece, seed), window.remote());
    const auto outcome = left.scope([&](Scope& scope) {
      const auto waited = scope.post(Write{piece(0), window.remote()});
      scope.post_detached(Write{piece(1), window.remote()});
      if (const auto done = scope.wait(waited); !done) told.push_back(done.error());
    });
    if (!outcome)
      told.insert(told.end(), outcome.error().operations.begin(), outcome.error().operations.end());
    auto [buffer, result] = owned.wait();
    EXPECT_TRUE(buffer);
    if (!result) told.push_back(result.error());
    return told;
  }
  void expect_device_lost(soft::FaultPlan plan) {
    const auto told = run_all(std::move(plan));
    // The device reports it at an arbitrary time.
    ASSERT_TRUE(eventually([&] { return !left.poll(); }));
    // Depends on whether the event or the returned work was seen first.
    const Error cause = *left.cause();
    EXPECT_TRUE(cause == Errc::device_failed || cause == Errc::work_failed) << to_string(cause);
    // Work in flight reports the cause. A post that no longer finds a device is refused.
    for (const Error& each : told)
      EXPECT_TRUE(each == cause.code || each == Errc::driver || each == Errc::broken)
          << to_string(each);
    EXPECT_TRUE(fails_with(left.send(piece(0)), Errc::broken));
    if (cause == Errc::device_failed) {
      EXPECT_TRUE(fails_with(std::move(left).recycle(), Errc::device_failed));
    }
  }
  SharedRegion window = require(domain.allocate_shared(kPiece, Access::remote_write));
};

TEST_F(ChannelFaults, MessageThatIsLostOnceIsNotNoticed) {
  EXPECT_EQ(run_all(soft::FaultPlan{}.drop(1)).size(), 0u);
  exchange(left, right);
}

TEST_F(ChannelFaults, MessageThatIsLateIsNotNoticed) {
  EXPECT_EQ(run_all(soft::FaultPlan{}.delay(1, 3ms)).size(), 0u);
  exchange(left, right);
}

TEST_F(ChannelFaults, MessageThatIsLostTooOftenEndsEverything) {
  const auto told = run_all(soft::FaultPlan{}.drop(1, 100));
  ASSERT_EQ(told.size(), 3u);
  for (const Error& each : told)
    EXPECT_EQ(each.value, static_cast<std::uint64_t>(WorkStatus::retry_exceeded));
}

TEST_F(ChannelFaults, OverrunOfTheCompletionQueueEndsTheChannel) {
  expect_device_lost(soft::FaultPlan{}.overrun(1));
}

TEST_F(ChannelFaults, DeviceThatDisappearsEndsTheChannel) {
  expect_device_lost(soft::FaultPlan{}.remove_device(1));
}

TEST_F(ChannelFaults, DeviceThatDisappearsWakesWhoSleepsOnTheFileDescriptor) {
  if (is_on_reactor()) GTEST_SKIP() << "the Reactor has one descriptor for all";
  const int fd = require(right.fd());
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&entry, 1, 0), 0);
  {
    const Faults faults{soft::FaultPlan{}.remove_device(1)};
    static_cast<void>(left.write(piece(0), window.remote()));
  }
  ASSERT_EQ(::poll(&entry, 1, 30'000), 1) << "nothing of its own was on the way";
  EXPECT_FALSE(right.poll().has_value());
  ASSERT_TRUE(right.cause());
  EXPECT_EQ(right.cause()->code, Errc::device_failed);
}

TEST_F(ChannelFaults, DeadlineOfALateMessageIsADeadlineAndNothingLandsAfterIt) {
  const Faults faults{soft::FaultPlan{}.delay(1, 20s)};
  Buffer late = filled(kPiece, seed);
  EXPECT_TRUE(fails_with(left.write(late.gather(), window.remote(), {}, 5ms), Errc::timed_out));
  EXPECT_TRUE(all_equal(window.quiescent_bytes(), std::byte{}));
}

}  // namespace
}  // namespace verbatim::test
