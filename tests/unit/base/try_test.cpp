// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: VERBATIM_TRY gives the value or returns the error, for every kind of result.
#include "verbatim/base/try.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "verbatim/base/error.hpp"

namespace verbatim {
namespace {

Result<int> number(bool works) {
  if (!works) return std::unexpected(Error{.code = Errc::busy, .operation = "number"});
  return 4;
}
Result<std::unique_ptr<int>> owned(bool works) {
  if (!works) return std::unexpected(Error{.code = Errc::forked});
  return std::make_unique<int>(5);
}
Result<void> nothing(bool works) {
  if (!works) return std::unexpected(Error{.code = Errc::not_found});
  return {};
}

Result<std::string> all(bool first, bool second, bool third) {
  const int a = VERBATIM_TRY(number(first));
  auto b = VERBATIM_TRY(owned(second));
  VERBATIM_TRY(nothing(third));
  return std::to_string(a + *b);
}

TEST(Try, GivesTheValues) { EXPECT_EQ(all(true, true, true).value(), "9"); }

TEST(Try, ReturnsTheFirstErrorWhole) {
  const auto result = all(false, false, true);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), Errc::busy);
  EXPECT_STREQ(result.error().operation, "number");
}

TEST(Try, WorksForMoveOnlyAndVoid) {
  EXPECT_EQ(all(true, false, true).error(), Errc::forked);
  EXPECT_EQ(all(true, true, false).error(), Errc::not_found);
}

Result<int> from_a_variable() {
  Result<int> kept = 6;
  const int value = VERBATIM_TRY(kept);
  return value + kept.value();
}

TEST(Try, TakesNamedResultsToo) { EXPECT_EQ(from_a_variable().value(), 12); }

Result<int> evaluations(int& count) {
  VERBATIM_TRY((++count, nothing(true)));
  return count;
}

TEST(Try, EvaluatesItsArgumentOnce) {
  int count = 0;
  EXPECT_EQ(evaluations(count).value(), 1);
}

}  // namespace
}  // namespace verbatim
