// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: nothing is lost silently: posts that were refused, messages that nobody took, results that
//       another call found, a channel that was moved from.
// Method: a scripted device whose completions come when the test says.
// Covers: channel/posting.cpp, channel/scope_error.cpp
#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <vector>

#include "support/scripted_device.hpp"
#include "support/throwing_contracts.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::test {
namespace {

class Losses : public ScriptedDevice {
 protected:
  static bool is_readable(int fd) {
    pollfd source{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&source, 1, 0) == 1;
  }
  /// Completes all sends that the device has.
  void complete_sends() { script.complete_all(script.sends); }
};

using LossesDeathTest = Losses;

// ---- Refused posts in a scope

TEST_F(Losses, RefusedPostThatNobodyWaitsForFailsTheScope) {
  open_channel({.max_sends = 2});
  Buffer memory = buffer();
  std::uint32_t line = 0;
  const auto outcome = channel().scope([&](Scope& scope) {
    std::vector<Operation> handles;
    line = std::source_location::current().line() + 1;
    for (int i = 0; i < 5; ++i) handles.push_back(scope.post(Send{memory.gather()}));
    complete_sends();
  });
  EXPECT_EQ(script.sends.size(), 2u);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_FALSE(outcome.error().closure);
  ASSERT_EQ(outcome.error().operations.size(), 3u);
  for (const ScopeFailure& each : outcome.error().operations) {
    EXPECT_EQ(each.code, Errc::would_block);
    EXPECT_EQ(each.where.line(), line);
    EXPECT_TRUE(std::string{each.where.file_name()}.ends_with("losses_test.cpp"));
  }
  EXPECT_FALSE(channel().cause());  // A full queue is nobody's fault.
}

TEST_F(Losses, RefusedPostThatWasWaitedForIsNoFailure) {
  open_channel({.max_sends = 1});
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) {
    const Operation sent = scope.post(Send{memory.gather()});
    const Operation refused = scope.post(Send{memory.gather()});
    EXPECT_TRUE(fails_with(scope.wait(refused), Errc::would_block));
    EXPECT_TRUE(fails_with(scope.wait(refused), Errc::stale));
    complete_sends();
    EXPECT_TRUE(succeeds(scope.wait(sent)));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(Losses, RefusalsAreTheirOwnScopes) {
  open_channel({.max_sends = 1});
  Buffer memory = buffer();
  const auto outer = channel().scope([&](Scope& scope) {
    const Operation sent = scope.post(Send{memory.gather()});
    const Operation mine = scope.post(Send{memory.gather()});
    const auto inner = channel().scope([&](Scope& nested) {
      static_cast<void>(nested.post(Send{memory.gather()}));
      EXPECT_TRUE(fails_with(nested.wait(mine), Errc::would_block));  // Of the enclosing scope.
    });
    ASSERT_FALSE(inner.has_value());
    EXPECT_EQ(inner.error().operations.size(), 1u);
    complete_sends();
    EXPECT_TRUE(succeeds(scope.wait(sent)));
  });
  EXPECT_TRUE(outer.has_value());
}

TEST_F(Losses, CancelledChannelsRefusalsFailTheScope) {
  open_channel();
  Buffer memory = buffer();
  channel().cancel();
  const auto outcome = channel().scope([&](Scope& scope) {
    static_cast<void>(scope.post(Send{memory.gather()}));
    static_cast<void>(scope.post(Receive{memory.scatter()}));
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().operations.size(), 2u);
}

TEST_F(Losses, RefusedPostCountsInAManualScope) {
  open_channel({.max_sends = 1});
  Buffer memory = buffer();
  const ThrowingContracts contracts;
  EXPECT_THROW(static_cast<void>(channel().manual_scope([&](Scope& scope) {
                 const Operation sent = scope.post(Send{memory.gather()});
                 static_cast<void>(scope.post(Send{memory.gather()}));
                 complete_sends();
                 EXPECT_TRUE(succeeds(scope.wait(sent)));
               })),
               ContractViolation);
}

// ---- What a ScopeError is good for

TEST_F(Losses, ScopeErrorIsAnErrorForWhoWantsOne) {
  open_channel({.max_sends = 1});
  Buffer memory = buffer();
  const auto run = [&]() -> Result<int> {
    VERBATIM_TRY(channel().scope([&](Scope& scope) {
      static_cast<void>(scope.post(Send{memory.gather()}));
      static_cast<void>(scope.post(Send{memory.gather()}));
      complete_sends();
    }));
    return 7;
  };
  EXPECT_TRUE(fails_with(run(), Errc::would_block));
  const auto closure = [&]() -> Result<int> {
    return VERBATIM_TRY(channel().scope([&](Scope&) -> Result<int> {
      return std::unexpected(Error{.code = Errc::malformed, .operation = "test"});
    }));
  };
  EXPECT_TRUE(fails_with(closure(), Errc::malformed));
}

TEST_F(Losses, ScopeErrorTellsTheLineOfEachFailure) {
  open_channel();
  Buffer memory = buffer();
  const auto outcome = channel().scope([&](Scope& scope) -> Result<void> {
    static_cast<void>(scope.post(Send{memory.gather()}));
    script.complete(script.sends[0].id, IBV_WC_REM_ACCESS_ERR);
    return std::unexpected(Error{.code = Errc::malformed, .operation = "the closure's own"});
  });
  ASSERT_FALSE(outcome.has_value());
  const std::string text = to_string(outcome.error());
  EXPECT_NE(text.find("the closure: the closure's own"), std::string::npos) << text;
  EXPECT_NE(text.find("\nlosses_test.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find("work request"), std::string::npos) << text;
  EXPECT_GT(explain(outcome.error()).size(), text.size());
}

// ---- Messages

std::vector<std::string>& logged() {
  static std::vector<std::string> all;
  return all;
}

TEST_F(Losses, MessageIntoADroppedReceiveIsCountedAndLogged) {
  open_channel();
  logged().clear();
  const LogSink before = set_log_sink([](LogLevel level, std::string_view message) noexcept {
    if (level >= LogLevel::warning) logged().emplace_back(message);
  });
  static_cast<void>(channel().receive(buffer()));
  static_cast<void>(channel().receive(buffer()));
  EXPECT_EQ(require(channel().poll()), 0u);
  EXPECT_EQ(channel().dropped_messages(), 0u);
  script.complete(script.receives[0].id, IBV_WC_SUCCESS, IBV_WC_RECV);
  script.complete(script.receives[1].id, IBV_WC_SUCCESS, IBV_WC_RECV);
  EXPECT_EQ(require(channel().poll()), 2u);
  EXPECT_EQ(channel().dropped_messages(), 2u);
  set_log_sink(before);
  ASSERT_EQ(logged().size(), 1u);  // Once is enough.
  EXPECT_NE(logged()[0].find("lost"), std::string::npos);
}

TEST_F(Losses, DroppedSendIsNoDroppedMessage) {
  open_channel();
  static_cast<void>(channel().send(buffer()));
  complete_sends();
  EXPECT_EQ(require(channel().poll()), 1u);
  EXPECT_EQ(channel().dropped_messages(), 0u);
}

// ---- Results that another call has found

TEST_F(Losses, WhatABlockingCallFoundIsToldByFdAndPoll) {
  open_channel();
  const int fd = require(channel().fd());
  auto receiving = channel().receive(buffer());
  EXPECT_EQ(require(channel().poll()), 0u);
  EXPECT_FALSE(is_readable(fd));
  Buffer memory = buffer();
  script.on_empty = [&] {  // The blocking call finds the other completion first.
    script.on_empty = {};
    script.complete(script.receives[0].id, IBV_WC_SUCCESS, IBV_WC_RECV);
    script.complete(script.sends[0].id);
  };
  ASSERT_TRUE(succeeds(channel().send(memory.gather())));
  EXPECT_TRUE(is_readable(fd));
  EXPECT_EQ(require(channel().poll()), 1u);
  EXPECT_FALSE(is_readable(fd));
  EXPECT_EQ(require(channel().poll()), 0u);  // Once.
  EXPECT_TRUE(succeeds(receiving.wait().result));
}

TEST_F(Losses, WhatWasFoundBeforeFdWasAskedForIsToldToo) {
  open_channel();
  auto receiving = channel().receive(buffer());
  auto other = channel().receive(buffer());
  script.complete(script.receives[0].id, IBV_WC_SUCCESS, IBV_WC_RECV);
  EXPECT_FALSE(other.ready());  // This files it.
  EXPECT_TRUE(is_readable(require(channel().fd())));
  EXPECT_EQ(require(channel().poll()), 1u);
  EXPECT_TRUE(receiving.ready());
  script.complete(script.receives[1].id, IBV_WC_SUCCESS, IBV_WC_RECV);
}

TEST_F(Losses, ResultThatWasTakenNeedsNoPoll) {
  open_channel();
  const int fd = require(channel().fd());
  auto first = channel().receive(buffer());
  script.on_empty = [&] {
    script.on_empty = {};
    script.complete(script.receives[0].id, IBV_WC_SUCCESS, IBV_WC_RECV);
  };
  ASSERT_TRUE(succeeds(first.wait().result));
  EXPECT_EQ(require(channel().poll()), 0u);
  EXPECT_FALSE(is_readable(fd));
}

TEST_F(Losses, EndOfAChannelIsToldByFd) {
  open_channel();
  const int fd = require(channel().fd());
  auto receiving = channel().receive(buffer());
  EXPECT_EQ(require(channel().poll()), 0u);
  ASSERT_FALSE(channel().receive(buffer(), {}).wait(std::chrono::nanoseconds{1}).result);
  EXPECT_TRUE(is_readable(fd));
  EXPECT_FALSE(receiving.wait().result);
}

// ---- Moved from

TEST_F(LossesDeathTest, PostOnAMovedFromChannelIsTold) {
  open_channel();
  Buffer memory = buffer();
  Channel other = std::move(channel());
  EXPECT_DEATH(static_cast<void>(channel().send(memory.gather())), "used after it was moved from");
  EXPECT_DEATH(static_cast<void>(channel().receive(memory.scatter())),
               "used after it was moved from");
  EXPECT_DEATH(static_cast<void>(channel().scope([](Scope&) {})), "used after it was moved from");
  EXPECT_DEATH(static_cast<void>(channel().poll()), "used after it was moved from");
  channel() = std::move(other);
}

}  // namespace
}  // namespace verbatim::test
