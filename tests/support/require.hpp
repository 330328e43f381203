// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file From a Result to the verdict of a test: `require` for what a test builds on, `fails_with`
/// for what it tests.
///
/// `require` throws, so it also ends a test from inside a helper or a constructor; GoogleTest
/// reports the exception as a failure of the test.
#include <gtest/gtest.h>

#include <ostream>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "verbatim/base/error.hpp"
#include "verbatim/verbs/completion.hpp"
#include "verbatim/verbs/events.hpp"
#include "verbatim/verbs/transition.hpp"
#include "verbatim/verbs/work_error.hpp"

namespace verbatim {

// How GoogleTest prints values of the library.
inline void PrintTo(Errc code, std::ostream* out) { *out << to_string(code); }
inline void PrintTo(WorkStatus status, std::ostream* out) { *out << to_string(status); }
inline void PrintTo(QueuePairState state, std::ostream* out) { *out << to_string(state); }
inline void PrintTo(WrId id, std::ostream* out) { *out << std::to_underlying(id); }
inline void PrintTo(QpNumber number, std::ostream* out) { *out << std::to_underlying(number); }
inline void PrintTo(Opcode opcode, std::ostream* out) { *out << "opcode " << int(opcode); }
inline void PrintTo(EventFlags flags, std::ostream* out) { *out << "events " << flags.bits; }

namespace test {

/// A precondition of the test did not hold.
class SetupFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void give_up(const std::string& what, const std::source_location& where) {
  std::ostringstream text;
  text << where.file_name() << ':' << where.line() << ": " << what;
  throw SetupFailed(text.str());
}

template <class T>
T require(Result<T> result, std::source_location where = std::source_location::current()) {
  if (!result) give_up(to_string(result.error()), where);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

template <class T>
[[nodiscard]] testing::AssertionResult fails_with(const Result<T>& result, Errc expected) {
  if (result) return testing::AssertionFailure() << "succeeded, expected " << to_string(expected);
  if (result.error() == expected) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "failed with \"" << to_string(result.error()) << "\", expected " << to_string(expected);
}

template <class T>
[[nodiscard]] testing::AssertionResult succeeds(const Result<T>& result) {
  if (result) return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_string(result.error());
}

}  // namespace test
}  // namespace verbatim
