// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every cell of the table of outcomes (scope.hpp): what the closure does, times what happens
//       to the work that it did not wait for, for scope() and for manual_scope().
// Method: the work is left in each form (a handle, detached, a batch), and fails in each way.
// Covers: channel/scope.cpp
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

#include "conformance/failing_work.hpp"
#include "support/throwing_contracts.hpp"

namespace verbatim::test {
namespace {

enum class Form : std::uint8_t { handle, detached, batch };
constexpr std::array kForms{Form::handle, Form::detached, Form::batch};

struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("on purpose") {}
};
Error closures_own() { return {.code = Errc::malformed, .operation = "the closure"}; }

/// Posts the work and does not wait for it.
void leave(Scope& scope, Form form, const Write<1>& work) {
  switch (form) {
    case Form::handle: static_cast<void>(scope.post(work)); return;
    case Form::detached: scope.post_detached(work); return;
    case Form::batch: static_cast<void>(scope.post(std::span{&work, 1})); return;
  }
}

// ---- What was left succeeds ---------------------------------------------------------------------

class ScopeOutcome : public ChannelsAndMemory {
 protected:
  [[nodiscard]] Write<1> write(std::size_t index) {
    return {piece(index), *window.remote().sub_region(index * kPiece, kPiece)};
  }
  /// Leaves work in each form. All of it must be done when the scope is over.
  void leave_all(Scope& scope) {
    for (std::size_t i = 0; i < kForms.size(); ++i) leave(scope, kForms[i], write(i));
  }
  [[nodiscard]] testing::AssertionResult all_done() {
    if (left.free_sends() != 127) return testing::AssertionFailure() << "a place is not back";
    for (std::size_t i = 0; i < kForms.size() * kPiece; ++i)
      if (window.quiescent_bytes()[i] != source[i])
        return testing::AssertionFailure() << "byte " << i << " was not written";
    return testing::AssertionSuccess();
  }
  SharedRegion window =
      require(domain.allocate_shared(kForms.size() * kPiece, Access::remote_write));
};

TEST_F(ScopeOutcome, ValueAndNothingLeftIsTheValue) {
  EXPECT_EQ(left.scope([](Scope&) { return 7; }).value(), 7);
  EXPECT_EQ(left.scope([](Scope&) -> Result<int> { return 8; }).value(), 8);
  EXPECT_TRUE(left.scope([](Scope&) {}).has_value());
  EXPECT_EQ(left.manual_scope([](Scope&) { return 9; }).value(), 9);
  // Also a value that can only be moved.
  EXPECT_EQ(*left.scope([](Scope&) { return std::make_unique<int>(10); }).value(), 10);
  EXPECT_EQ(
      *left.scope([](Scope&) -> Result<std::unique_ptr<int>> { return std::make_unique<int>(11); })
           .value(),
      11);
}

TEST_F(ScopeOutcome, ValueAndWorkThatSucceedsIsTheValue) {
  const auto outcome = left.scope([&](Scope& scope) -> Result<int> {
    leave_all(scope);
    return 42;
  });
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(*outcome, 42);
  EXPECT_TRUE(all_done());
}

TEST_F(ScopeOutcome, ErrorAndNothingLeftIsTheError) {
  const auto outcome =
      left.scope([](Scope&) -> Result<int> { return std::unexpected(closures_own()); });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().closure->code, Errc::malformed);
  EXPECT_TRUE(outcome.error().operations.empty());
}

TEST_F(ScopeOutcome, ErrorAndWorkThatSucceedsIsTheErrorAlone) {
  const auto outcome = left.scope([&](Scope& scope) -> Result<int> {
    leave_all(scope);
    return std::unexpected(closures_own());
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().closure->code, Errc::malformed);
  EXPECT_TRUE(outcome.error().operations.empty());
  EXPECT_TRUE(all_done());
}

TEST_F(ScopeOutcome, ExceptionFliesOnWhenTheWorkIsOver) {
  EXPECT_THROW(static_cast<void>(left.scope([](Scope&) { throw Stopped{}; })), Stopped);
  EXPECT_THROW(static_cast<void>(left.scope([&](Scope& scope) {
                 leave_all(scope);
                 throw Stopped{};
               })),
               Stopped);
  EXPECT_TRUE(all_done());
  EXPECT_FALSE(left.cause());
}

TEST_F(ScopeOutcome, ViolatedContractFliesOnWhenTheWorkIsOver) {
  const ThrowingContracts contracts;
  EXPECT_THROW(static_cast<void>(left.scope([&](Scope& scope) {
                 leave_all(scope);
                 static_cast<void>(from.gather(sink));  // Of another region.
               })),
               ContractViolation);
  EXPECT_TRUE(all_done());
}

TEST_F(ScopeOutcome, ClosureMayHaveAnErrorTypeOfItsOwn) {
  const auto outcome = left.scope([&](Scope& scope) -> std::expected<int, std::string> {
    leave_all(scope);
    return std::unexpected("not enough");
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().closure, "not enough");
  EXPECT_TRUE(all_done());
}

TEST_F(ScopeOutcome, InnerScopesErrorMayBeTheOuterClosures) {
  const auto outcome = left.scope([&](Scope& outer) {
    leave_all(outer);
    return left.scope([](Scope&) -> Result<int> { return std::unexpected(closures_own()); });
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_TRUE(outcome.error().closure);
  EXPECT_EQ(outcome.error().closure->closure->code, Errc::malformed);
  EXPECT_TRUE(all_done());
}

TEST_F(ScopeOutcome, ManualScopeWithEverythingWaitedForIsTheValue) {
  const auto outcome = left.manual_scope([&](Scope& scope) -> Result<int> {
    const Write<1> batch = write(2);
    const std::array operations{scope.post(write(0)), scope.post(write(1)),
                                scope.post(std::span{&batch, 1})};
    EXPECT_TRUE(succeeds(scope.wait(operations[1])));
    EXPECT_TRUE(eventually([&] {
      const auto polled = scope.poll(operations[2]);
      EXPECT_TRUE(!polled || succeeds(*polled));
      return polled.has_value();
    }));
    EXPECT_EQ(require(scope.wait_any(std::span{operations}.first(1))), 0u);
    EXPECT_TRUE(succeeds(scope.wait_all(std::span{operations}.first(1))));
    return 42;
  });
  EXPECT_EQ(outcome.value(), 42);
  EXPECT_TRUE(all_done());
}

TEST_F(ScopeOutcome, ManualScopeWithAHandleLeftIsAMistakeAlsoWhenItSucceeded) {
  const ThrowingContracts contracts;
  EXPECT_THROW(static_cast<void>(left.manual_scope([&](Scope& scope) {
                 leave(scope, Form::handle, write(0));
                 leave(scope, Form::batch, write(1));
                 EXPECT_TRUE(succeeds(scope.wait(scope.post(write(2)))));  // They are over, too.
               })),
               ContractViolation);
  EXPECT_TRUE(all_done());
  EXPECT_EQ(left.manual_scope([](Scope&) { return 7; }).value(), 7);  // Nothing stays behind.
}

// The scope waits for detached work; that is its purpose.
TEST_F(ScopeOutcome, ManualScopeMayLeaveDetachedWork) {
  for (int round = 0; round < 20; ++round) {
    const auto outcome = left.manual_scope([&](Scope& scope) {
      for (std::size_t i = 0; i < kForms.size(); ++i) scope.post_detached(write(i));
    });
    EXPECT_TRUE(outcome.has_value());
    EXPECT_TRUE(all_done());
  }
}

TEST_F(ScopeOutcome, ManualScopeMayLeaveAnythingWhenItFails) {
  const auto outcome = left.manual_scope([&](Scope& scope) -> Result<void> {
    leave_all(scope);
    return std::unexpected(closures_own());
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().closure->code, Errc::malformed);
  EXPECT_TRUE(outcome.error().operations.empty());
  EXPECT_TRUE(all_done());
  EXPECT_THROW(static_cast<void>(left.manual_scope([&](Scope& scope) {
                 leave_all(scope);
                 throw Stopped{};
               })),
               Stopped);
  EXPECT_TRUE(all_done());
}

// ---- What was left fails ------------------------------------------------------------------------

class ScopeWithFailure : public FailingWork {
 protected:
  /// The failing work, and work behind it that the device flushes.
  void leave_both(Scope& scope, Form form) {
    leave(scope, form, failing_write());
    leave(scope, form, good_write());
  }
  /// Both failures, with the reason.
  template <class E>
  void expect_both(const ScopeError<E>& error) {
    ASSERT_EQ(error.operations.size(), 2u);
    for (const Error& each : error.operations) EXPECT_TRUE(tells(each));
    ASSERT_TRUE(left.cause());
    EXPECT_TRUE(tells(*left.cause()));
  }
  /// Connects both channels again.
  void start_again() {
    faults.reset();
    pair = require(connect_pair(domain, few_retries()));
  }
};
VERBATIM_EACH_FAILURE(ScopeWithFailure);

TEST_P(ScopeWithFailure, ValueAndWorkThatFailsIsEachFailure) {
  for (const Form form : kForms) {
    start_again();
    fail_next();
    const auto outcome = left.scope([&](Scope& scope) -> Result<int> {
      leave_both(scope, form);
      return 42;
    });
    ASSERT_FALSE(outcome.has_value());
    EXPECT_FALSE(outcome.error().closure);
    expect_both(outcome.error());
  }
}

TEST_P(ScopeWithFailure, PlainValueAndWorkThatFailsIsEachFailure) {
  fail_next();
  const auto outcome = left.scope([&](Scope& scope) {
    leave_both(scope, Form::handle);
    return 42;
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_FALSE(outcome.error().closure);
  expect_both(outcome.error());
}

TEST_P(ScopeWithFailure, ErrorAndWorkThatFailsIsBoth) {
  for (const Form form : kForms) {
    start_again();
    fail_next();
    const auto outcome = left.scope([&](Scope& scope) -> Result<int> {
      leave_both(scope, form);
      return std::unexpected(closures_own());
    });
    ASSERT_FALSE(outcome.has_value());
    ASSERT_TRUE(outcome.error().closure);
    EXPECT_EQ(outcome.error().closure->code, Errc::malformed);
    expect_both(outcome.error());
  }
}

TEST_P(ScopeWithFailure, ExceptionFliesOnAndTheCauseStays) {
  for (const Form form : kForms) {
    start_again();
    fail_next();
    EXPECT_THROW(static_cast<void>(left.scope([&](Scope& scope) {
                   leave_both(scope, form);
                   throw Stopped{};
                 })),
                 Stopped);
    ASSERT_TRUE(left.cause());
    EXPECT_TRUE(tells(*left.cause()));
  }
}

TEST_P(ScopeWithFailure, FailureThatWasWaitedForIsTheClosuresOwn) {
  fail_next();
  const auto outcome = left.scope([&](Scope& scope) {
    EXPECT_TRUE(tells(scope.wait(scope.post(failing_write()))));
    return 42;
  });
  EXPECT_EQ(outcome.value(), 42);
}

TEST_P(ScopeWithFailure, OnlyWhatWasNotWaitedForIsListed) {
  fail_next();
  const auto outcome = left.scope([&](Scope& scope) {
    const auto failing = scope.post(failing_write());
    leave(scope, Form::detached, good_write());
    EXPECT_TRUE(tells(scope.wait(failing)));
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_TRUE(tells(outcome.error().operations[0]));
}

TEST_P(ScopeWithFailure, ManualScopeWithTheFailureWaitedForIsTheValue) {
  fail_next();
  const auto outcome = left.manual_scope([&](Scope& scope) {
    EXPECT_TRUE(tells(scope.wait(scope.post(failing_write()))));
    return 42;
  });
  EXPECT_EQ(outcome.value(), 42);
}

TEST_P(ScopeWithFailure, ManualScopeWithAHandleLeftIsAMistakeAlsoWhenItFailed) {
  const ThrowingContracts contracts;
  fail_next();
  EXPECT_THROW(
      static_cast<void>(left.manual_scope([&](Scope& scope) { leave_both(scope, Form::handle); })),
      ContractViolation);
  ASSERT_TRUE(left.cause());
  EXPECT_TRUE(tells(*left.cause()));
}

TEST_P(ScopeWithFailure, ManualScopeTellsOfDetachedWorkThatFailed) {
  fail_next();
  const auto outcome = left.manual_scope([&](Scope& scope) { leave_both(scope, Form::detached); });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_FALSE(outcome.error().closure);
  expect_both(outcome.error());
}

TEST_P(ScopeWithFailure, ManualScopesErrorComesWithEachFailure) {
  fail_next();
  const auto outcome = left.manual_scope([&](Scope& scope) -> Result<void> {
    leave_both(scope, Form::handle);
    return std::unexpected(closures_own());
  });
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().closure->code, Errc::malformed);
  expect_both(outcome.error());
}

}  // namespace
}  // namespace verbatim::test
