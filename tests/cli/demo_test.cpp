// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `verbatim demo` says which device and why, that the data is right, how fast, and what next.
// Method: the program itself on soft0. No time is judged; `./bench soft` says what is fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/command.hpp"

namespace verbatim::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Demo, ShowsDeviceDataFiguresAndWhatToTryNext) {
  const auto outcome = run_command({VERBATIM_PROGRAM, "demo", "--device", "soft0"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  for (const char* const part : {"device: soft0, software device built into Verbatim: this user, "
                                 "this machine (the command line "
                                 "names it)",
                                 "the data is right", "median", "p99", "write     1M",
                                 "latency in us", "bench --verb all", "preload --"})
    EXPECT_THAT(outcome.output, HasSubstr(part));
}

TEST(Demo, SaysWhyItTookTheDevice) {
  const auto outcome = run_command({VERBATIM_PROGRAM, "demo", "--json"}, {"VERBATIM_DEVICE=soft0"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const json document = json::parse(outcome.output);
  EXPECT_THAT(document["device"].get<std::string>(), HasSubstr("VERBATIM_DEVICE names it"));
  EXPECT_EQ(document["results"].size(), 4u);
}

TEST(Demo, WithoutTheDeviceIsAFailure) {
  const auto outcome = run_command({VERBATIM_PROGRAM, "demo", "-d", "nope7"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("nope7"));
  EXPECT_EQ(run_command({VERBATIM_PROGRAM, "demo", "--colour"}).status, 2);
}

}  // namespace
}  // namespace verbatim::test
