// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `verbatim bench` measures and checks every verb, alone and between two processes; what it
//       is told wrong is one line; strangers at its port harm nobody; Ctrl-C keeps what there is.
// Method: the program itself, as processes, on soft0. No time is judged.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/pty.hpp"
#include "verbatim_program.hpp"

namespace verbatim::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const SoftSubcommand bench{"bench"};

TEST(Bench, MeasuresAndChecksEveryVerb) {
  const auto outcome = bench({"--verb", "all", "-s", "8,4K", "-n", "300", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const json document = json::parse(outcome.output);
  EXPECT_EQ(document["device"], "soft0");
  ASSERT_EQ(document["results"].size(), 7u);
  for (const json& each : document["results"]) {
    EXPECT_EQ(each["verified"], true) << each;
    EXPECT_EQ(each["latency_us"]["exchanges"], 300u) << each;
    EXPECT_GT(each["latency_us"]["p50"], 0) << each;
    EXPECT_LE(each["latency_us"]["p50"], each["latency_us"]["max"]) << each;
    EXPECT_GE(each["bandwidth"]["messages"], 300u) << each;
  }
}

TEST(Bench, ChecksMessagesOfAnySize) {
  const auto outcome =
      bench({"--verb", "send,write,read", "-s", "1,2,7,9,100,4097", "-n", "600", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const json document = json::parse(outcome.output);
  ASSERT_EQ(document["results"].size(), 18u);
  for (const json& each : document["results"]) EXPECT_EQ(each["verified"], true) << each;
}

TEST(Bench, SaysWhichSizesThereAre) {
  for (const char* const size : {"0", "65M"})
    EXPECT_THAT(bench({"-s", size}).errors, HasSubstr("is not a size from 1 to 64M bytes")) << size;
}

TEST(Bench, TakesManyQueuePairsBatchesAndInlineMessages) {
  const auto outcome = bench({"--verb", "send,write,read", "-s", "8,512", "-n", "500", "-q", "5",
                              "--batch", "4", "--depth", "9", "--inline", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  for (const json& each : json::parse(outcome.output)["results"]) {
    EXPECT_EQ(each["verified"], true) << each;
    EXPECT_EQ(each["inline"], each["bytes"] == 8 && each["verb"] != "read") << each;
  }
}

TEST(Bench, PrintsATableBarsAndAPictureAndNoColourIntoAPipe) {
  const std::string file = testing::TempDir() + fmt::format("bench-{}.svg", getpid());
  const auto outcome = bench({"-s", "8,64", "--duration", "0.01", "--plot", file});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, IsEmpty());  // Nobody looks: no progress.
  EXPECT_THAT(outcome.output, HasSubstr("median"));
  EXPECT_THAT(outcome.output, HasSubstr("latency in us"));
  EXPECT_EQ(outcome.output.find('\x1b'), std::string::npos);
  std::ifstream picture{file};
  std::string first;
  std::getline(picture, first);
  EXPECT_THAT(first, StartsWith("<?xml"));
  std::remove(file.c_str());
}

TEST(Bench, MeasuresOneFigureOnly) {
  const auto outcome = bench({"-s", "8", "-n", "100", "--only", "bandwidth", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const json row = json::parse(outcome.output)["results"][0];
  EXPECT_FALSE(row.contains("latency_us"));
  EXPECT_TRUE(row.contains("bandwidth"));
}

TEST(Bench, OnOneProcessorTheEndsTakeTurns) {
  std::vector<std::string> words = {"taskset", "-c", "0"};
  for (auto& each : bench.words({"--verb", "all", "-s", "8", "-n", "200", "--json"}))
    words.push_back(each);
  const auto outcome = run_command(words, SoftSubcommand::variables());
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("take turns"));
}

class BenchMistakes : public testing::TestWithParam<std::vector<std::string>> {};
TEST_P(BenchMistakes, AreOneLineAndStatus2) {
  expect_mistake(bench(GetParam()), "verbatim bench --help");
}
INSTANTIATE_TEST_SUITE_P(
    CommandLine, BenchMistakes,
    testing::Values(
        std::vector<std::string>{"--sizes", "0"}, std::vector<std::string>{"-s", "65M"},
        std::vector<std::string>{"-s", "x"}, std::vector<std::string>{"--verb", "fly"},
        std::vector<std::string>{"-n", "0"}, std::vector<std::string>{"-n", "5", "--duration", "1"},
        std::vector<std::string>{"--depth", "0"}, std::vector<std::string>{"--batch", "65"},
        std::vector<std::string>{"-q", "65"}, std::vector<std::string>{"--only", "rate"},
        std::vector<std::string>{"host", "--listen"}, std::vector<std::string>{"--once"},
        std::vector<std::string>{"--cpus", "0,1,2"}, std::vector<std::string>{"--against", "fly"},
        std::vector<std::string>{"host", "--against", "perftest"},
        std::vector<std::string>{"--timeout", "0"}, std::vector<std::string>{"--nope"}));

TEST(Bench, SaysThatADeviceIsNotThere) {
  const auto outcome = bench({"--device", "nope7"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("nope7"));
}

TEST(Bench, SaysThatAPictureCannotBeWritten) {
  const auto outcome = bench({"-s", "8", "-n", "10", "--plot", "/nonexistent/p.svg"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("/nonexistent/p.svg"));
}

TEST(Bench, RunsPerftestBesideIt) {
  if (run_command({"ib_write_lat", "--version"}).status == 127)
    GTEST_SKIP() << "perftest is not installed";
  const auto outcome =
      bench({"--verb", "write,read", "-s", "8", "-n", "500", "--against", "perftest", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  for (const json& each : json::parse(outcome.output)["results"]) {
    EXPECT_GT(each["perftest"]["p50_us"], 0) << each;
    EXPECT_GT(each["perftest"]["mib_per_s"], 0) << each;
  }
}

TEST(Bench, SaysThatPerftestIsNotThere) {
  auto variables = SoftSubcommand::variables();
  variables.emplace_back("PATH=/nowhere");
  const auto outcome =
      run_command(bench.words({"-s", "8", "-n", "10", "--against", "perftest"}), variables);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("perftest"));
}

struct Listening : ListeningEnd {
  explicit Listening(std::vector<std::string> more = {})
      : ListeningEnd(bench, with_timeout(std::move(more))) {}
  static std::vector<std::string> with_timeout(std::vector<std::string> more) {
    more.insert(more.end(), {"--timeout", "5"});
    return more;
  }
};

/// Connects, sends, and waits for the other side's end. What it answered.
std::string as_stranger(int port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{.tv_sec = 60, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  shutdown(fd, SHUT_WR);
  std::string answer;
  char block[4096];
  for (ssize_t got = 0; (got = recv(fd, block, sizeof block, 0)) > 0;)
    answer.append(block, static_cast<std::size_t>(got));
  close(fd);
  return answer;
}

std::string record(const json& object) { return object.dump() + "\n"; }
const json kHello = {{"verbatim", "measure"}, {"version", 1}, {"device", "soft0"}};

TEST(BenchListen, ServesOneClientAfterTheOther) {
  Listening server;
  EXPECT_THAT(server.address, StartsWith("127.0.0.1:"));  // Nobody else reaches it by default.
  for (const char* const verb : {"write", "send"}) {
    const auto outcome =
        bench({server.address, "--verb", verb, "-s", "8,64K", "-n", "100", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(json::parse(outcome.output)["results"].size(), 2u);
  }
  server.command.signal(SIGTERM);
  EXPECT_EQ(server.command.finish().status, 128 + SIGTERM);
}

TEST(BenchListen, OnceMeansOneClient) {
  Listening server{{"--once"}};
  EXPECT_EQ(bench({server.address, "-s", "8", "-n", "10"}).status, 0);
  EXPECT_EQ(server.command.finish().status, 0);
}

TEST(BenchListen, DropsStrangersAndServesOn) {
  Listening server;
  static_cast<void>(as_stranger(server.port(), "GET / HTTP/1.1\r\n\r\n"));
  static_cast<void>(as_stranger(server.port(), ""));
  const json other_version = {{"verbatim", "measure"}, {"version", 99}};
  EXPECT_THAT(as_stranger(server.port(), record(other_version)), HasSubstr("version"));
  for (const json& nonsense :
       {json{{"case", 7}}, json{{"phase", "latency"}}, json{{"bad", 1}},
        json{{"case", {{"verb", "write"}, {"bytes", 1}}}},
        json{{"case",
              {{"verb", "write"}, {"bytes", 8}, {"depth", 1}, {"queue_pairs", 1}, {"batch", 1}}},
             {"endpoints", {"{}"}},
             {"memory", "{}"}}})
    EXPECT_THAT(as_stranger(server.port(), record(kHello) + record(nonsense)), HasSubstr("error"))
        << nonsense;
  EXPECT_EQ(bench({server.address, "-s", "8", "-n", "10"}).status, 0);
  server.command.signal(SIGINT);
  const auto ended = server.command.finish();
  EXPECT_EQ(ended.status, 128 + SIGINT);
  EXPECT_THAT(ended.errors, HasSubstr("dropped a client"));
}

TEST(BenchListen, SurvivesAClientThatIsKilled) {
  Listening server;
  {
    Command client{bench.words({server.address, "-s", "8", "--duration", "50"}),
                   SoftSubcommand::variables()};
    EXPECT_TRUE(client.prints("median"));
    client.signal(SIGKILL);
    static_cast<void>(client.finish());
  }
  EXPECT_EQ(bench({server.address, "-s", "8", "-n", "10"}).status, 0);
}

TEST(BenchClient, SaysThatNobodyListens) {
  const auto outcome = bench({"127.0.0.1:1", "--timeout", "0.3"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("nobody answers at 127.0.0.1:1"));
}

TEST(BenchClient, KeepsWhatItHasAtCtrlC) {
  Command command{bench.words({"-s", "8-1M", "--duration", "1", "--only", "latency"}),
                  SoftSubcommand::variables()};
  ASSERT_TRUE(command.prints("ok"));  // The first of 18 sizes is there.
  command.signal(SIGINT);
  const auto outcome = command.finish();
  EXPECT_EQ(outcome.status, 130);
  EXPECT_THAT(outcome.output, HasSubstr("write      8"));
  EXPECT_THAT(outcome.output, HasSubstr("latency in us"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("1M")));
}

TEST(BenchClient, EndsACountedStreamAtCtrlC) {
  PseudoTerminal terminal{
      bench.words({"--verb", "send", "-s", "8", "-n", "1000000000000", "--only", "bandwidth"}),
      SoftSubcommand::variables(),
      {}};
  ASSERT_TRUE(terminal.shows("send 8 bandwidth"));  // The progress of the stream.
  terminal.press("\x03");
  EXPECT_EQ(terminal.finish(), 130);
}

}  // namespace
}  // namespace verbatim::test
