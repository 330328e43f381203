// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a plan given as text is the same as one given as code; a bad plan is refused with the name
//       of the item.
// Method: a table of texts.
#include "verbatim/soft/fault_plan.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string_view>

#include "support/named_error.hpp"
#include "support/pattern.hpp"
#include "support/seed.hpp"

namespace verbatim::soft {
namespace {

using test::require;
using namespace std::chrono_literals;

bool same(const Fault& a, const Fault& b) {
  return a.kind == b.kind && a.operation == b.operation && a.count == b.count &&
         a.delay == b.delay && (a.kind != FaultKind::fail || a.status == b.status);
}

TEST(FaultPlan, TextSaysTheSameAsCode) {
  FaultPlan expected;
  expected.drop(17).drop(18, 3).delay(5, 2ms).no_receive(9, 2).fail(4, 12).port_down(30, 5us);
  expected.overrun(6).remove_device(99).fail_call(3, ENOMEM).fail_call(4, 17);
  const FaultPlan found =
      require(parse_fault_plan("drop@17;drop@18x3;delay@5=2ms;rnr@9x2;fail@4=12;port_down@30=5us;"
                               "overrun@6;remove@99;call@3=ENOMEM;call@4=17"));
  ASSERT_EQ(found.operations.size(), expected.operations.size());
  for (std::size_t i = 0; i < found.operations.size(); ++i)
    EXPECT_TRUE(same(found.operations[i], expected.operations[i])) << i;
  ASSERT_EQ(found.calls.size(), 2u);
  EXPECT_EQ(found.calls[0].call, 3u);
  EXPECT_EQ(found.calls[0].os_error, ENOMEM);
  EXPECT_EQ(found.calls[1].os_error, 17);
}

TEST(FaultPlan, EmptyItemsAreNothing) {
  for (const char* const text : {"", ";", ";;drop@1;;"}) {
    const FaultPlan plan = require(parse_fault_plan(text));
    EXPECT_LE(plan.operations.size(), 1u) << text;
    EXPECT_TRUE(plan.calls.empty());
  }
}

TEST(FaultPlan, UnderstandsUnitsOfTime) {
  const FaultPlan plan =
      require(parse_fault_plan("delay@1=7ns;delay@1=7us;delay@1=7ms;delay@1=7s"));
  ASSERT_EQ(plan.operations.size(), 4u);
  EXPECT_EQ(plan.operations[0].delay, 7ns);
  EXPECT_EQ(plan.operations[1].delay, 7us);
  EXPECT_EQ(plan.operations[2].delay, 7ms);
  EXPECT_EQ(plan.operations[3].delay, 7s);
}

struct BadItem {
  const char* text;
  const char* field;
};

class BadFaultPlan : public testing::TestWithParam<BadItem> {};

TEST_P(BadFaultPlan, IsRefusedByName) {
  const auto [item, field] = GetParam();
  const auto parsed = parse_fault_plan(std::string{"drop@1;"} + item + ";overrun@2");
  EXPECT_TRUE(test::fails_naming(parsed, Errc::malformed, field));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().text_view(), item);
}

INSTANTIATE_TEST_SUITE_P(
    Items, BadFaultPlan,
    testing::Values(
        BadItem{"drop", "@"}, BadItem{"drop@", "operation"}, BadItem{"drop@0", "operation"},
        BadItem{"drop@-1", "operation"}, BadItem{"drop@1x0", "count"}, BadItem{"drop@1x", "count"},
        BadItem{"drop@1xx", "count"}, BadItem{"drop@1=5", "value"}, BadItem{"dorp@1", "kind"},
        BadItem{"@1", "kind"}, BadItem{"delay@1", "duration"}, BadItem{"delay@1=5", "duration"},
        BadItem{"delay@1=ms", "duration"}, BadItem{"delay@1=5min", "duration"},
        BadItem{"delay@1=-5ms", "duration"}, BadItem{"port_down@1=", "duration"},
        BadItem{"fail@1", "status"}, BadItem{"fail@1=0", "status"}, BadItem{"fail@1=24", "status"},
        BadItem{"fail@1=x", "status"}, BadItem{"call@1", "errno"}, BadItem{"call@1=ENOPE", "errno"},
        BadItem{"call@1=0", "errno"}, BadItem{"call@0=EIO", "operation"}));

TEST(FaultPlan, NoiseNeitherCrashesNorPassesForNothing) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  test::Random random{seed};
  constexpr std::string_view kLetters = "dropelayrnfilcxs@=;0123456789_";
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::uint64_t length = random.up_to(24); length > 0; --length)
      text += kLetters[random.up_to(kLetters.size() - 1)];
    if (const auto plan = parse_fault_plan(text)) {
      EXPECT_TRUE(text.find_first_not_of(';') == std::string::npos || !plan->operations.empty() ||
                  !plan->calls.empty())
          << text;
    }
  }
}

}  // namespace
}  // namespace verbatim::soft
