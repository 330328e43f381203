// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `verbatim ping` gets answers, from an end here and from one that listens; if none comes,
//       it says so in time, with one line and the exit status.
// Method: the program itself, as processes, on soft0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "verbatim_program.hpp"

namespace verbatim::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const SoftSubcommand ping{"ping"};

TEST(Ping, IsAnswered) {
  const auto outcome = ping({"-n", "3", "-i", "0", "-s", "4K"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("4096 bytes there and back: number 3, "));
  EXPECT_THAT(outcome.output, HasSubstr("3 of 3 answered; round trip min/median/max "));
  EXPECT_THAT(outcome.output, HasSubstr("the data is right"));
}

TEST(Ping, IsAnsweredWithMessagesOfOneByte) {
  const auto outcome = ping({"-n", "300", "-i", "0", "-s", "1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(json::parse(outcome.output)["answers"], 300u);
}

TEST(Ping, IsAnsweredByAListener) {
  ListeningEnd server{ping, {"--once"}};
  const auto outcome = ping({server.address, "-n", "5", "-i", "0", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const json document = json::parse(outcome.output);
  EXPECT_EQ(document["answers"], 5u);
  EXPECT_EQ(document["verified"], true);
  EXPECT_EQ(server.command.finish().status, 0);
}

TEST(Ping, LearnsThatTheOtherEndWasStopped) {
  const ListeningEnd server{ping};
  // The time-out also holds while the ends agree, when both are alive.
  Command client{ping.words({server.address, "-n", "1000000", "-i", "0", "--timeout", "5"}),
                 SoftSubcommand::variables()};
  ASSERT_TRUE(client.prints("number 2,"));
  server.command.signal(SIGSTOP);
  const auto outcome = client.finish();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("not answered for 5 s"));
  EXPECT_THAT(outcome.output, HasSubstr("of 1000000 answered"));
  server.command.signal(SIGCONT);
}

TEST(Ping, SaysAtCtrlCWhatItHas) {
  Command client{ping.words({"-n", "1000000", "-i", "0.05"}), SoftSubcommand::variables()};
  ASSERT_TRUE(client.prints("number 2,"));
  client.signal(SIGINT);
  const auto outcome = client.finish();
  EXPECT_EQ(outcome.status, 130);
  EXPECT_THAT(outcome.output, HasSubstr("of 1000000 answered; round trip"));
}

class PingMistakes : public testing::TestWithParam<std::vector<std::string>> {};
TEST_P(PingMistakes, AreOneLineAndStatus2) {
  expect_mistake(ping(GetParam()), "verbatim ping --help");
}
INSTANTIATE_TEST_SUITE_P(CommandLine, PingMistakes,
                         testing::Values(std::vector<std::string>{"-n", "0"},
                                         std::vector<std::string>{"-s", "8,16"},
                                         std::vector<std::string>{"-s", "0"},
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
