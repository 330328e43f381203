// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `verbatim ping` gets answers, from an end here and from one that listens; who gets none
//       learns it in time, by one line and the exit status.
// Method: the program itself, as processes, on soft0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/command.hpp"

namespace verbatim::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kSoft = {"VERBATIM_DEVICE=soft0"};

std::vector<std::string> ping_words(std::vector<std::string> words) {
  words.insert(words.begin(), {VERBATIM_PROGRAM, "ping"});
  return words;
}
Command::Outcome ping(std::vector<std::string> words) {
  return run_command(ping_words(std::move(words)), kSoft);
}

TEST(Ping, IsAnswered) {
  const auto outcome = ping({"-n", "3", "-i", "0", "-s", "4K"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("4096 bytes there and back: number 3, "));
  EXPECT_THAT(outcome.output, HasSubstr("3 of 3 answered; round trip min/median/max "));
  EXPECT_THAT(outcome.output, HasSubstr("the data is right"));
}

TEST(Ping, IsAnsweredByAListener) {
  Command server{ping_words({"--listen", "--port", "0", "--json", "--once"}), kSoft};
  ASSERT_TRUE(server.prints("listening"));
  const auto address = json::parse(server.output())["listening"].get<std::string>();
  const auto outcome = ping({address, "-n", "5", "-i", "0", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const json document = json::parse(outcome.output);
  EXPECT_EQ(document["answers"], 5u);
  EXPECT_EQ(document["verified"], true);
  EXPECT_EQ(server.finish().status, 0);
}

TEST(Ping, LearnsThatTheOtherEndWasStopped) {
  Command server{ping_words({"--listen", "--port", "0", "--json"}), kSoft};
  ASSERT_TRUE(server.prints("listening"));
  const auto address = json::parse(server.output())["listening"].get<std::string>();
  Command client{ping_words({address, "-n", "1000000", "-i", "0", "--timeout", "2"}), kSoft};
  ASSERT_TRUE(client.prints("number 2,"));
  server.signal(SIGSTOP);
  const auto outcome = client.finish();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("not answered for 2 s"));
  EXPECT_THAT(outcome.output, HasSubstr("of 1000000 answered"));
  server.signal(SIGCONT);
}

TEST(Ping, SaysAtCtrlCWhatItHas) {
  Command client{ping_words({"-n", "1000000", "-i", "0.05"}), kSoft};
  ASSERT_TRUE(client.prints("number 2,"));
  client.signal(SIGINT);
  const auto outcome = client.finish();
  EXPECT_EQ(outcome.status, 130);
  EXPECT_THAT(outcome.output, HasSubstr("of 1000000 answered; round trip"));
}

class PingMistakes : public testing::TestWithParam<std::vector<std::string>> {};
TEST_P(PingMistakes, AreOneLineAndStatus2) {
  const auto outcome = ping(GetParam());
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, IsEmpty());
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("verbatim ping --help"));
}
INSTANTIATE_TEST_SUITE_P(CommandLine, PingMistakes,
                         testing::Values(std::vector<std::string>{"-n", "0"},
                                         std::vector<std::string>{"-s", "8,16"},
                                         std::vector<std::string>{"-s", "3"},
                                         std::vector<std::string>{"-i", "-1"},
                                         std::vector<std::string>{"a", "b"},
                                         std::vector<std::string>{"a", "--listen", "b"}));

TEST(Ping, SaysThatNobodyListens) {
  const auto outcome = ping({"127.0.0.1:1", "--timeout", "0.2"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("nobody answers"));
}

}  // namespace
}  // namespace verbatim::test
