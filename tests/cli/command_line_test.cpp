// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a wrong command line gives one line on stderr that says what is wrong and where to read on,
//       and exit status 2; help and version go to stdout.
// Method: the program itself, as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/command.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Command::Outcome verbatim(std::vector<std::string> words) {
  words.insert(words.begin(), VERBATIM_PROGRAM);
  return run_command(std::move(words));
}

struct Mistake {
  std::vector<std::string> words;
  std::string said;
};

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreOneLineAndStatus2) {
  const auto outcome = verbatim(GetParam().words);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, IsEmpty());
  EXPECT_THAT(outcome.errors, HasSubstr(GetParam().said));
  EXPECT_THAT(outcome.errors, HasSubstr("--help"));
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
}

INSTANTIATE_TEST_SUITE_P(CommandLine, Mistakes,
                         testing::Values(Mistake{{}, "verbatim: A subcommand is required"},
                                         Mistake{{"fly"}, "fly"}, Mistake{{"--colour"}, "--colour"},
                                         Mistake{{"preload", "--nope", "--", "true"}, "--nope"},
                                         Mistake{{"preload"}, "verbatim preload: -- PROGRAM"},
                                         Mistake{{"preload", "--"}, "-- PROGRAM"},
                                         Mistake{{"run", "--", "true"}, "--ranks"},
                                         Mistake{{"run", "-n", "0", "--", "true"}, "4096"}));

TEST(CommandLine, HelpAndVersionAreWhatWasAskedFor) {
  EXPECT_EQ(verbatim({"--version"}).output, VERBATIM_VERSION "\n");
  const auto help = verbatim({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.errors, IsEmpty());
  EXPECT_THAT(help.output, HasSubstr("preload"));
  EXPECT_EQ(verbatim({"preload", "--help"}).status, 0);
}

}  // namespace
}  // namespace verbatim::test
