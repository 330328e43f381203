// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the examples with ranks do what they say, with two ranks and with eight.
// Method: `verbatim run`, as their comments say; the JSON file with a process for each rank.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "support/command.hpp"

namespace verbatim::test {
namespace {

const std::vector<std::string> kDevice{"VERBATIM_DEVICE=soft0"};

std::string example(const std::string& name) { return VERBATIM_EXAMPLES "/" + name; }

struct Example {
  const char* name;
  const char* says;
};

class RankExamples : public testing::TestWithParam<std::tuple<Example, int>> {};

TEST_P(RankExamples, EndWell) {
  const auto& [program, ranks] = GetParam();
  const auto [status, output, errors] = run_command(
      {VERBATIM_PROGRAM, "run", "-n", std::to_string(ranks), "--", example(program.name)}, kDevice);
  EXPECT_EQ(status, 0) << output << errors;
  EXPECT_NE(output.find(program.says), std::string::npos) << output << errors;
}

std::string name_of(const testing::TestParamInfo<RankExamples::ParamType>& tested) {
  const auto& [program, ranks] = tested.param;
  return std::string{program.name} + "_" + std::to_string(ranks);
}

INSTANTIATE_TEST_SUITE_P(
    All, RankExamples,
    testing::Combine(testing::Values(Example{"all_to_all", "arrived at each rank"},
                                     Example{"broadcast_tree", "have 1048576 bytes"},
                                     Example{"event_builder", "built "},
                                     Example{"network", "says hello"},
                                     Example{"network_barrier", "met 10001 times"},
                                     Example{"ring", "sum of the ranks: "}),
                     testing::Values(2, 3, 8)),
    name_of);

TEST(RankExample, SurvivesTheLastRank) {
  const auto [status, output, errors] = run_command(
      {VERBATIM_PROGRAM, "run", "-n", "4", "--keep-going", "--", example("surviving")}, kDevice);
  EXPECT_EQ(status, 128 + SIGKILL) << "of the one that was killed\n" << output << errors;
  EXPECT_NE(output.find("[0] rank 3 is lost"), std::string::npos) << output << errors;
  EXPECT_NE(output.find("generation 2 goes on"), std::string::npos) << output << errors;
}

TEST(RankExample, RunsUnderMpirun) {
  if (run_command({"mpirun", "--version"}).status != 0) GTEST_SKIP() << "mpirun is not there";
  const auto [status, output, errors] = run_command(
      {"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", example("all_to_all")},
      kDevice);
  EXPECT_EQ(status, 0) << output << errors;
  EXPECT_NE(output.find("arrived at each rank"), std::string::npos) << output << errors;
}

TEST(RankExample, StartsFromAFile) {
  const std::string file = testing::TempDir() + "hosts-" + std::to_string(getpid()) + ".json";
  // A port that was free a moment ago would almost always work, but nobody uses this range.
  const int port = 20000 + getpid() % 10000;
  std::ofstream out{file};
  out << "{\"hosts\": [";
  for (int rank = 0; rank < 3; ++rank)
    out << (rank == 0 ? "" : ",") << R"({"hostname": "127.0.0.1", "port": )" << port + rank
        << R"(, "ibdev": "soft0", "rankid": )" << rank << "}";
  out << "]}";
  out.close();
  std::vector<std::unique_ptr<Command>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(std::make_unique<Command>(
        std::vector<std::string>{example("network"), file, std::to_string(rank)}));
  for (const auto& rank : ranks) {
    const auto [status, output, errors] = rank->finish();
    EXPECT_EQ(status, 0) << output << errors;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace verbatim::test
