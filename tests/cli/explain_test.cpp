// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `verbatim explain` says what an error means, to people and to programs.
// Method: the program itself, as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "verbatim_program.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Explain, SaysMeaningCausesAndRemedy) {
  const auto outcome = run_verbatim({"explain", "Errc::peer_lost"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.errors, IsEmpty());
  EXPECT_THAT(outcome.output, StartsWith("peer_lost (code 19): peer lost\n"));
  EXPECT_THAT(outcome.output, HasSubstr("\n  - the peer's process ended or was killed\n"));
  EXPECT_THAT(outcome.output, HasSubstr("\n  what to do: check the peer's program"));
}

TEST(Explain, TakesSeveralAndBothMeaningsOfANumber) {
  const auto outcome = run_verbatim({"explain", "IBV_WC_RETRY_EXC_ERR", "12", "-12"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, StartsWith("retry_exceeded (status 12, IBV_WC_RETRY_EXC_ERR): "));
  EXPECT_THAT(outcome.output, HasSubstr("\n\nENOMEM (errno 12): Cannot allocate memory\n"));
}

TEST(Explain, SaysTheSameThingOnce) {
  EXPECT_EQ(run_verbatim({"explain", "ENOMEM", "-12", "enomem"}).output,
            run_verbatim({"explain", "ENOMEM"}).output);
}

TEST(Explain, LooksAtThisMachineWhereTheCallIsKnown) {
  const auto outcome = run_command(
      {"sh", "-c", "ulimit -Sl 64; exec " VERBATIM_PROGRAM " explain --in ibv_reg_mr ENOMEM"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, StartsWith("ibv_reg_mr: out of resources"));
  // A process that may lock without a limit hears that.
  EXPECT_THAT(outcome.output, testing::AnyOf(HasSubstr("memlock limit is 64 KiB"),
                                             HasSubstr("limit of locked memory does not bind"),
                                             HasSubstr("no more objects of this kind")));
}

TEST(Explain, TableIsJsonWithEveryField) {
  const auto outcome = run_verbatim({"explain", "--json", "--all"});
  EXPECT_EQ(outcome.status, 0);
  const auto table = json_of(outcome);
  ASSERT_TRUE(table.is_array());
  EXPECT_GT(table.size(), 60u);
  for (const auto& row : table) {
    for (const char* field : {"code", "kind", "name", "alias", "meaning", "remedy"})
      EXPECT_TRUE(row[field].is_string()) << row;
    EXPECT_TRUE(row["value"].is_number_integer()) << row;
    EXPECT_TRUE(row["causes"].is_array()) << row;
  }
  EXPECT_EQ(table[0]["code"], "invalid_argument");
}

TEST(Explain, JsonOfSomeIsTheSameAsInTheTable) {
  const auto some = json_of(run_verbatim({"explain", "--json", "flushed"}));
  const auto table = json_of(run_verbatim({"explain", "--json", "--list"}));
  ASSERT_EQ(some.size(), 1u);
  EXPECT_NE(std::ranges::find(table, some[0]), table.end());
}

TEST(Explain, ListHasALineForEach) {
  const auto outcome = run_verbatim({"explain", "--list"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("\nstatus   12  retry_exceeded "));
  EXPECT_THAT(outcome.output, Not(HasSubstr("what to do")));
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(outcome.output, '\n')),
            json_of(run_verbatim({"explain", "--json", "--all"})).size());
}

TEST(Explain, NoColoursWhereNobodyLooks) {
  EXPECT_THAT(run_verbatim({"explain", "--all"}, {"TERM=xterm"}).output, Not(HasSubstr("\x1b")));
}

struct BadUse {
  std::vector<std::string> words;
  std::string said;
};
class ExplainMistakes : public testing::TestWithParam<BadUse> {};

TEST_P(ExplainMistakes, AreOneLineAndStatus2) {
  const auto outcome = run_verbatim(GetParam().words);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, IsEmpty());
  EXPECT_THAT(outcome.errors, HasSubstr(GetParam().said));
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
}

INSTANTIATE_TEST_SUITE_P(
    Explain, ExplainMistakes,
    testing::Values(BadUse{{"explain"}, "An error, --list or --all is required"},
                    BadUse{{"explain", "--list", "ENOMEM"}, "Either"},
                    BadUse{{"explain", "peer_lsot"}, "is it peer_lost"},
                    BadUse{{"explain", "ENOMEM", "xyzzy123"}, "xyzzy123 is no code"},
                    BadUse{{"explain", "4000"}, "4000"},
                    BadUse{{"explain", "--in", "ibv_reg_mr", "peer_lost"}, "--in"},
                    BadUse{{"explain", "--jsno", "ENOMEM"}, "--jsno"}));

}  // namespace
}  // namespace verbatim::test
