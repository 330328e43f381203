// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: close() and the deadlines do what they say, also at the ends of their range, and
//       meaningless options are refused.
// Method: a scripted device.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

#include "support/scripted_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Close = ScriptedDevice;
using Deadlines = ScriptedDevice;

TEST_F(Close, TellsOfASendThatFailed) {
  open_channel();
  auto sending = channel().send(buffer());
  script.empty_polls = 2;
  script.complete(script.sends[0].id, IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(fails_with(channel().close(), Errc::work_failed));
  EXPECT_EQ(channel().cause()->code, Errc::work_failed);
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::work_failed));
}

TEST_F(Close, TellsOfABrokenCompletionQueue) {
  open_channel();
  auto sending = channel().send(buffer());
  script.poll_result = -EIO;
  EXPECT_TRUE(fails_with(channel().close(), Errc::device_failed));
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::device_failed));
}

TEST_F(Close, WithTheLongestTimeWaits) {
  open_channel();
  auto sending = channel().send(buffer());
  script.empty_polls = 4;
  script.complete(script.sends[0].id);
  EXPECT_TRUE(succeeds(channel().close(Timeout::max())));
  EXPECT_TRUE(succeeds(sending.wait().result));
}

TEST_F(Close, WaitsForBatchesAndDroppedHandlesToo) {
  open_channel();
  {
    const auto dropped = channel().send(buffer());
  }
  script.empty_polls = 4;
  script.complete(script.sends[0].id);
  EXPECT_TRUE(succeeds(channel().close(Timeout::max())));
}

TEST_F(Close, InsideAScopeEndsItsOperations) {
  open_channel();
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    static_cast<void>(scope.post(Receive{memory.scatter()}));
    EXPECT_TRUE(succeeds(channel().close()));
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_EQ(outcome.error().operations[0].code, Errc::closed);
}

TEST_F(Close, SecondTimeDoesNothing) {
  open_channel();
  EXPECT_TRUE(succeeds(channel().close()));
  EXPECT_TRUE(succeeds(channel().close()));
  EXPECT_EQ(script.errors, 1u);
}

TEST_F(Deadlines, LongestOnesDoNotEndAtOnce) {
  open_channel({.timeout = std::chrono::nanoseconds::max()});
  Buffer memory = buffer();
  const auto late = [&](std::uint64_t id) {
    script.empty_polls = 4;
    script.complete(id);
  };
  const auto outcome = channel().scope([&](Scope& scope) {
    for (const Deadline limit : {Deadline{std::chrono::nanoseconds::max()}, Deadline{}}) {
      const std::array one{scope.post(Send{memory.gather()})};
      late(script.sends.back().id);
      EXPECT_EQ(require(scope.wait_any(one, limit)), 0u);
      EXPECT_TRUE(succeeds(scope.wait_all(one, limit)));
      const std::array other{scope.post(Send{memory.gather()})};
      late(script.sends.back().id);
      EXPECT_TRUE(succeeds(scope.wait_all(other, limit)));
      const auto third = scope.post(Send{memory.gather()});
      late(script.sends.back().id);
      EXPECT_TRUE(succeeds(scope.wait(third, limit)));
    }
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(Deadlines, WaitAllHasOneForAll) {
  open_channel({.timeout = 10s});
  Buffer memory = buffer();
  Buffer into = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    const std::array all{scope.post(Send{memory.gather()}), scope.post(Send{memory.gather()}),
                         scope.post(Receive{into.scatter()})};
    script.complete(script.sends[1].id);
    EXPECT_TRUE(fails_with(scope.wait_all(all, 20ms), Errc::timed_out));
    // All were taken, including those that succeeded.
    for (const auto& each : all) EXPECT_TRUE(fails_with(scope.wait(each), Errc::stale));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(Deadlines, WaitAnyThatIsLateEndsTheChannelAndLosesNothing) {
  open_channel();
  Buffer memory = buffer();
  Buffer into = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    const std::array all{scope.post(Send{memory.gather()}), scope.post(Receive{into.scatter()})};
    EXPECT_TRUE(fails_with(scope.wait_any(all, 5ms), Errc::timed_out));
    EXPECT_EQ(channel().cause()->code, Errc::timed_out);
    EXPECT_EQ(require(scope.wait_any(all)), 0u);
    EXPECT_TRUE(fails_with(scope.wait_all(all), Errc::timed_out));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(Deadlines, WaitAnyOfNothingIsAMistake) {
  open_channel();
  const auto outcome = channel().scope([&](Scope& scope) {
    EXPECT_TRUE(fails_with(scope.wait_any({}), Errc::invalid_argument));
    EXPECT_TRUE(succeeds(scope.wait_all({})));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_FALSE(channel().cause());
}

TEST_F(Deadlines, AnyPolicyOfWaitingEnds) {
  constexpr auto kLong = std::chrono::nanoseconds::max();
  for (const WaitPolicy policy :
       {WaitPolicy{.spin = kLong, .yield = kLong}, WaitPolicy{.spin = 1ns, .yield = kLong},
        WaitPolicy{.spin = 0ns, .yield = 0ns},
        WaitPolicy{.spin = 0ns, .yield = 0ns, .sleep = false}}) {
    open_channel({.wait = policy});
    EXPECT_TRUE(fails_with(channel().receive(buffer()).wait(2ms).result, Errc::timed_out));
    close_channel();
    script = {};
  }
}

TEST_F(Deadlines, NegativeTimesAreRefused) {
  static_cast<void>(prepare());
  for (const char* field : {"timeout", "flush_timeout", "keepalive"}) {
    ChannelOptions options;
    (std::string_view{field} == "timeout"         ? options.timeout
     : std::string_view{field} == "flush_timeout" ? options.flush_timeout
                                                  : options.keepalive) = -1ns;
    const auto refused = PreparedChannel::create(domain(), options);
    ASSERT_TRUE(fails_with(refused, Errc::invalid_argument));
    EXPECT_STREQ(refused.error().field, field);
  }
}

TEST_F(Deadlines, ZeroTimesEndAfterOneLook) {
  open_channel({.timeout = 0ns, .flush_timeout = 0ns});
  script.flushes = false;
  auto [memory, result] = channel().receive(buffer()).wait();
  EXPECT_TRUE(fails_with(result, Errc::timed_out));
  EXPECT_TRUE(memory);
  EXPECT_EQ(script.destroys, 1u);
}

TEST_F(Deadlines, NumbersOfRequestsAreChecked) {
  static_cast<void>(prepare());
  EXPECT_TRUE(
      fails_with(PreparedChannel::create(domain(), {.max_sends = 0}), Errc::invalid_argument));
  EXPECT_TRUE(
      fails_with(PreparedChannel::create(domain(), {.max_receives = 0}), Errc::invalid_argument));
  EXPECT_TRUE(
      fails_with(PreparedChannel::create(domain(), {.max_sends = ~0u}), Errc::limit_exceeded));
  EXPECT_TRUE(fails_with(PreparedChannel::create(domain(), {.max_receives = 1u << 21}),
                         Errc::limit_exceeded));
  open_channel({.max_sends = 1, .max_receives = 1});
  EXPECT_EQ(channel().free_sends(), 1u);
}

}  // namespace
}  // namespace verbatim::test
