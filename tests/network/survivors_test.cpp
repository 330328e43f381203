// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whenever a rank is killed, every other one says which, and none hangs; survivors go on
//       without it, or with a process that took its place.
// Method: real processes under `verbatim run --keep-going` and mpirun, SIGKILL at random moments:
//         while they start, at barriers, while they write to each other.
// Covers: network/node_found.cpp
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>
#include <sstream>
#include <thread>

#include "support/command.hpp"
#include "support/seed.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// The pids of the ranks, by rank, from lines "[RANK] pid P".
std::vector<pid_t> pids(const std::string& output, std::size_t world) {
  std::vector<pid_t> found(world, 0);
  std::istringstream lines{output};
  for (std::string line; std::getline(lines, line);) {
    unsigned rank = 0;
    int pid = 0;
    if (std::sscanf(line.c_str(), "[%u] pid %d", &rank, &pid) == 2 && rank < world)
      found[rank] = pid;
  }
  return found;
}

std::size_t count(const std::string& output, const std::string& text) {
  std::size_t times = 0;
  for (std::size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
    ++times;
  return times;
}

std::vector<std::string> job(std::size_t world, const std::string& how) {
  return {VERBATIM_PROGRAM,  "run", "-n", std::to_string(world), "--keep-going", "--",
          VERBATIM_SURVIVOR, how};
}

class SurvivorsTest : public testing::TestWithParam<const char*> {};

/// 200 rounds over the three ways.
TEST_P(SurvivorsTest, NameWhoWasKilledAtAnyMoment) {
  constexpr int kRounds = 67;
  const std::string when = GetParam();
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(replay(seed));
  std::mt19937_64 random{seed};
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::size_t world = 2 + random() % 4;
    Command ranks{job(world, when == "start" ? "barrier" : when), {"VERBATIM_DEVICE=soft0"}};
    ASSERT_TRUE(ranks.prints("] pid ", world)) << ranks.finish().output;
    const auto victim = random() % world;
    if (when != "start") {
      ASSERT_TRUE(ranks.prints("] joined", world)) << ranks.finish().output;
    }
    const auto pause = std::chrono::microseconds{random() % 20'000};
    std::this_thread::sleep_for(pause);  // wait: any moment will do
    ASSERT_EQ(kill(pids(ranks.output(), world)[victim], SIGKILL), 0);
    const auto [status, output, errors] = ranks.finish();
    EXPECT_EQ(count(output, "] lost " + std::to_string(victim) + "\n"), world - 1)
        << "killed " << victim << " of " << world << " after " << pause.count() << " us\n"
        << output << errors;
    EXPECT_EQ(status, 128 + SIGKILL) << output << errors;
  }
}
INSTANTIATE_TEST_SUITE_P(At, SurvivorsTest, testing::Values("start", "barrier", "all-to-all"));

TEST(Survivors, GoOnWithoutTheLostRank) {
  for (int round = 0; round < 5; ++round) {
    Command ranks{job(4, "regroup"), {"VERBATIM_DEVICE=soft0"}};
    ASSERT_TRUE(ranks.prints("] joined", 4)) << ranks.finish().output;
    ASSERT_EQ(kill(pids(ranks.output(), 4)[1], SIGKILL), 0);
    const auto [status, output, errors] = ranks.finish();
    EXPECT_EQ(count(output, "] regrouped 3\n"), 3u) << output << errors;
    EXPECT_EQ(count(output, "] left\n"), 3u) << output << errors;
  }
}

/// mpirun kills everybody when one dies, unless it is told not to.
TEST(Survivors, NameWhoWasKilledUnderMpirun) {
  if (run_command({"mpirun", "--version"}).status != 0) GTEST_SKIP() << "mpirun is not there";
  for (int round = 0; round < 3; ++round) {
    Command ranks{{"mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery",
                   "--tag-output", "-n", "4", VERBATIM_SURVIVOR, "barrier"},
                  {"VERBATIM_DEVICE=soft0"}};
    ASSERT_TRUE(ranks.prints("joined", 4)) << ranks.finish().output;
    // Lines are "[1,RANK]<stdout>:pid P". Rank 0 coordinates: its end is another matter.
    const std::string output = ranks.output();
    const std::size_t at = output.find("[1,2]<stdout>:pid ");
    ASSERT_NE(at, std::string::npos) << output;
    const int pid = std::atoi(output.c_str() + at + std::string_view{"[1,2]<stdout>:pid "}.size());
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    const auto ended = ranks.finish();
    EXPECT_EQ(count(ended.output, "lost 2\n"), 3u) << ended.output << ended.errors;
  }
}

}  // namespace
}  // namespace verbatim::test
