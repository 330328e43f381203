// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `verbatim run` starts the ranks of a job, hands on what they print, tells the first
// failure,
//       and leaves no process behind, however it ends.
// Method: the program itself, as a process, with small shell scripts as ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/command.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Lt;
using Clock = std::chrono::steady_clock;

std::vector<std::string> words(std::vector<std::string> options, std::vector<std::string> program) {
  std::vector<std::string> all{VERBATIM_PROGRAM, "run"};
  all.insert(all.end(), options.begin(), options.end());
  all.push_back("--");
  all.insert(all.end(), program.begin(), program.end());
  return all;
}

std::vector<std::string> shell(std::vector<std::string> options, const std::string& script) {
  return words(std::move(options), {"sh", "-c", script});
}

/// Whether a process (not a zombie) with this number is there.
bool is_alive(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/stat"};
  std::string number;
  std::string name;
  std::string state;
  return file >> number >> name >> state && state != "Z" && state != "X";
}

testing::AssertionResult is_gone(pid_t pid) {
  for (const auto end = Clock::now() + 20s; Clock::now() < end;) {
    if (!is_alive(pid)) return testing::AssertionSuccess();
    std::this_thread::sleep_for(2ms);  // wait: nobody tells us of the end of another's child
  }
  return testing::AssertionFailure() << "process " << pid << " is still there";
}

/// The numbers behind "pid " in what was printed.
std::vector<pid_t> pids_in(const std::string& output) {
  std::vector<pid_t> found;
  for (const std::string& line : sorted_lines(output))
    if (const auto at = line.find("pid "); at != std::string::npos)
      found.push_back(static_cast<pid_t>(std::stol(line.substr(at + 4))));
  return found;
}

std::size_t lines_in(const std::string& text) { return sorted_lines(text).size(); }

TEST(Run, TellsEachRankWhoItIs) {
  const auto outcome = run_command(
      shell({"-n", "3", "--job", "tea"}, "echo $VERBATIM_RANK of $VERBATIM_WORLD in $VERBATIM_JOB"),
      {"VERBATIM_SECRET_FILE=/nowhere", "VERBATIM_RANK=77"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(sorted_lines(outcome.output),
              ElementsAre("[0] 0 of 3 in tea", "[1] 1 of 3 in tea", "[2] 2 of 3 in tea"));
  EXPECT_EQ(outcome.errors, "");
}

TEST(Run, GivesTheSecretInTheEnvironmentOnly) {
  const auto outcome = run_command(
      shell({"-n", "1"},
            "echo ${#VERBATIM_SECRET} ${VERBATIM_SECRET_FILE-none} $VERBATIM_COORDINATOR;"
            "tr '\\0' ' ' </proc/$PPID/cmdline | grep -c $VERBATIM_SECRET;"
            "tr '\\0' ' ' </proc/$$/cmdline | grep -c $VERBATIM_SECRET"),
      {"VERBATIM_SECRET_FILE=/nowhere"});
  EXPECT_THAT(outcome.output, testing::StartsWith("[0] 64 none 127.0.0.1:"));
  EXPECT_THAT(outcome.output, testing::EndsWith("[0] 0\n[0] 0\n"));
}

TEST(Run, GivesArgumentsAsTheyAre) {
  const auto outcome =
      run_command(words({"-n", "1"}, {"printf", "<%s>", "a b", "", "--help", "-n", "--"}));
  EXPECT_EQ(outcome.output, "[0] <a b><><--help><-n><-->\n");
}

TEST(Run, RanksReadNothingAndHaveTheStandardDescriptorsOnly) {
  const auto outcome = run_command(
      {"sh", "-c",
       "exec 7</dev/null; exec \"$0\" run -n 1 -- sh -c 'cat; ls /proc/self/fd | wc -l'",
       VERBATIM_PROGRAM});
  EXPECT_EQ(outcome.output, "[0] 4\n");  // And the directory itself.
}

TEST(Run, KeepsLinesWholeAndStreamsApart) {
  // Each writes its lines in small pieces.
  const auto outcome = run_command(
      shell({"-n", "8"},
            "i=0; while [ $i -lt 200 ]; do printf 'abc'; printf 'def%d' $i; echo; echo e$i >&2; "
            "i=$((i+1)); done"));
  EXPECT_EQ(outcome.status, 0);
  std::vector<std::string> expected_output;
  std::vector<std::string> expected_errors;
  std::string output;
  std::string errors;
  for (int rank = 0; rank < 8; ++rank)
    for (int i = 0; i < 200; ++i) {
      const std::string prefix = "[" + std::to_string(rank) + "] ";
      output += prefix + "abcdef" + std::to_string(i) + "\n";
      errors += prefix + "e" + std::to_string(i) + "\n";
    }
  EXPECT_EQ(sorted_lines(outcome.output), sorted_lines(output));
  EXPECT_EQ(sorted_lines(outcome.errors), sorted_lines(errors));
}

TEST(Run, EndsALineThatItsRankDidNotEnd) {
  const auto outcome = run_command(shell({"-n", "2"}, "printf x"));
  EXPECT_THAT(sorted_lines(outcome.output), ElementsAre("[0] x", "[1] x"));
}

TEST(Run, CutsALineThatNeverEnds) {
  const auto outcome = run_command(shell({"-n", "1"}, "head -c 3000000 /dev/zero | tr '\\0' x"));
  const auto lines = sorted_lines(outcome.output);
  EXPECT_EQ(lines.size(), 3);
  EXPECT_EQ(outcome.output.size(), 3000000 + 3 * (4 + 1));
}

TEST(Run, LeavesTheOutputAloneWithoutPrefix) {
  const auto outcome =
      run_command(shell({"-n", "1", "--no-prefix"}, "printf x; printf 'y\\n' >&2"));
  EXPECT_EQ(outcome.output, "x");
  EXPECT_EQ(outcome.errors, "y\n");
}

TEST(Run, ReturnsTheStatusOfTheFirstThatFailsAndEndsTheOthers) {
  const auto begin = Clock::now();
  const auto outcome = run_command(shell(
      {"-n", "4"}, "if [ $VERBATIM_RANK = 2 ]; then exit 3; fi; echo pid $$; exec sleep 500"));
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.errors, "verbatim run: rank 2 exited with status 3\n");
  for (const pid_t pid : pids_in(outcome.output)) EXPECT_TRUE(is_gone(pid));
  EXPECT_LT(Clock::now() - begin, 30s);
}

TEST(Run, ReturnsTheSignalOfOneThatWasKilled) {
  const auto outcome = run_command(
      shell({"-n", "2"}, "if [ $VERBATIM_RANK = 1 ]; then kill -9 $$; fi; exec sleep 500"));
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_EQ(outcome.errors, "verbatim run: rank 1 was ended by signal 9 (Killed)\n");
}

TEST(Run, KillsWhoDoesNotHeedTheRequestToEnd) {
  // They tell rank 0 through files that the signal does nothing to them any more.
  const auto place =
      std::filesystem::path{testing::TempDir()} / ("verbatim-run-" + std::to_string(getpid()));
  const std::string stubborn = "trap '' TERM; echo pid $$; touch " + place.string() +
                               ".$VERBATIM_RANK; while :; do sleep 500; done";
  const std::string failing = "while ! [ -e " + place.string() + ".1 -a -e " + place.string() +
                              ".2 ]; do sleep 0.01; done; exit 5";
  const auto outcome =
      run_command(shell({"-n", "3", "--grace", "0.2"},
                        "if [ $VERBATIM_RANK = 0 ]; then " + failing + "; fi; " + stubborn));
  EXPECT_EQ(outcome.status, 5);
  const auto pids = pids_in(outcome.output);
  EXPECT_EQ(pids.size(), 2);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid));
  for (const char* rank : {".1", ".2"}) std::filesystem::remove(place.string() + rank);
}

TEST(Run, KeepsGoingIfAskedTo) {
  // The others wait until the end of rank 1 was seen: then its process id is gone.
  const auto place =
      std::filesystem::path{testing::TempDir()} / ("verbatim-run-" + std::to_string(getpid()));
  const std::string file = place.string() + ".pid";
  const std::string failing = "echo $$ >" + file + ".new; mv " + file + ".new " + file + "; exit 9";
  const std::string waiting = "while ! [ -e " + file +
                              " ]; do sleep 0.01; done; while kill -0 $(cat " + file +
                              ") 2>/dev/null; do sleep 0.01; done; sleep 0.2; echo done; ";
  const auto outcome = run_command(shell(
      {"-n", "4", "--keep-going"}, "if [ $VERBATIM_RANK = 1 ]; then " + failing + "; fi; " +
                                       waiting + "if [ $VERBATIM_RANK = 3 ]; then exit 4; fi"));
  std::filesystem::remove(file);
  EXPECT_EQ(outcome.status, 9);
  EXPECT_THAT(sorted_lines(outcome.output), ElementsAre("[0] done", "[2] done", "[3] done"));
  EXPECT_THAT(sorted_lines(outcome.errors),
              ElementsAre("verbatim run: rank 1 exited with status 9",
                          "verbatim run: rank 3 exited with status 4"));
}

TEST(Run, ForwardsSignals) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Command command{shell({"-n", "3"}, "trap 'echo got " + std::to_string(number) + "; exit 0' " +
                                           std::to_string(number) +
                                           "; echo up; while :; do sleep 0.05; done")};
    ASSERT_TRUE(command.prints("up", 3));
    command.signal(number);
    const auto outcome = command.finish();
    EXPECT_EQ(outcome.status, 0);
    const std::string got = "got " + std::to_string(number);
    EXPECT_THAT(sorted_lines(outcome.output), ElementsAre("[0] " + got, "[0] up", "[1] " + got,
                                                          "[1] up", "[2] " + got, "[2] up"));
  }
}

TEST(Run, EndsWithTheSignalThatEndedItsRanks) {
  Command command{shell({"-n", "3"}, "echo up; exec sleep 500")};
  ASSERT_TRUE(command.prints("up", 3));
  command.signal(SIGINT);
  const auto outcome = command.finish();
  EXPECT_EQ(outcome.status, 128 + SIGINT);
  EXPECT_EQ(outcome.errors, "");  // Who pressed the key knows.
}

TEST(Run, SecondRequestEndsWhoIgnoresTheFirst) {
  Command command{shell({"-n", "2", "--grace", "0.1"},
                        "trap '' INT TERM; echo up pid $$; while :; do sleep 500; done")};
  ASSERT_TRUE(command.prints("up", 2));
  command.signal(SIGINT);
  command.signal(SIGTERM);
  command.signal(SIGINT);
  // Two of the same kind that come at once may be one: so this is sent until it was heard.
  const auto outcome = [&] {
    std::jthread again{[&, pid = command.pid()](const std::stop_token& over) {
      while (!over.stop_requested()) {
        std::this_thread::sleep_for(20ms);  // wait: signals have no acknowledgement
        kill(pid, SIGINT);
      }
    }};
    return command.finish();
  }();
  EXPECT_EQ(outcome.status, 128 + SIGINT);
  for (const pid_t pid : pids_in(outcome.output)) EXPECT_TRUE(is_gone(pid));
}

TEST(Run, KilledItselfTakesTheRanksAlong) {
  Command command{shell({"-n", "3"}, "echo pid $$; exec sleep 500")};
  ASSERT_TRUE(command.prints("pid", 3));
  command.signal(SIGKILL);
  const auto outcome = command.finish();
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  const auto pids = pids_in(outcome.output);
  ASSERT_EQ(pids.size(), 3);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid));
}

TEST(Run, EndsWhatARankLeftBehind) {
  const auto outcome = run_command(shell({"-n", "2"}, "sleep 500 & echo pid $!"));
  EXPECT_EQ(outcome.status, 0);
  const auto pids = pids_in(outcome.output);
  ASSERT_EQ(pids.size(), 2);
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid));
}

TEST(Run, RanksLearnThatNobodyReadsTheirOutput) {
  Command command{shell({"-n", "2"}, "while :; do echo line || exit 1; done")};
  ASSERT_TRUE(command.prints("line"));
  command.stop_reading();
  EXPECT_EQ(command.finish().status, 128 + SIGPIPE);
}

TEST(Run, HeedsSignalsWhileNobodyReadsItsOutput) {
  Command command{shell({"-n", "2", "--grace", "0.1"}, "exec yes")};
  ASSERT_TRUE(command.prints("y"));
  // From here on nobody reads: its pipe fills, and so do those of the ranks.
  command.signal(SIGINT);
  for (const auto end = Clock::now() + 20s; is_alive(command.pid()) && Clock::now() < end;)
    std::this_thread::sleep_for(2ms);  // wait: reading its output would empty the pipe
  EXPECT_FALSE(is_alive(command.pid()));
  EXPECT_EQ(command.finish().status, 128 + SIGINT);
}

TEST(Run, ProgramThatIsNotThereIsOneLine) {
  const auto outcome = run_command(words({"-n", "3"}, {"./no-such-program"}));
  EXPECT_EQ(outcome.status, 127);
  EXPECT_EQ(outcome.errors, "verbatim run: ./no-such-program: No such file or directory\n");
  EXPECT_EQ(run_command(words({"-n", "1"}, {"no-such-program-in-path"})).status, 127);
}

TEST(Run, ProgramThatCannotBeRunIsOneLine) {
  const auto outcome = run_command(words({"-n", "3"}, {"/etc/passwd"}));
  EXPECT_EQ(outcome.status, 126);
  EXPECT_EQ(outcome.errors, "verbatim run: /etc/passwd: Permission denied\n");
  EXPECT_EQ(run_command(words({"-n", "1"}, {"/"})).status, 126);
}

TEST(Run, MistakesOfTheCallAreOneLineEach) {
  for (const char* ranks : {"0", "-1", "4097", "99999999999999999999", "two", "1.5", ""}) {
    const auto outcome = run_command(words({"-n", ranks}, {"echo", "started"}));
    EXPECT_NE(outcome.status, 0) << ranks;
    EXPECT_EQ(outcome.output, "") << ranks;
    EXPECT_EQ(lines_in(outcome.errors), 1) << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr("--ranks")) << ranks;
  }
  for (const auto& call : {std::vector<std::string>{VERBATIM_PROGRAM, "run", "-n", "2"},
                           {VERBATIM_PROGRAM, "run", "-n", "2", "--"},
                           {VERBATIM_PROGRAM, "run", "-n", "2", "true"},
                           {VERBATIM_PROGRAM, "run", "--", "true"},
                           {VERBATIM_PROGRAM, "run", "-n", "2", "--grace", "-1", "--", "true"}}) {
    const auto outcome = run_command(call);
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(lines_in(outcome.errors), 1) << outcome.errors;
  }
}

TEST(Run, MoreRanksThanDescriptorsAreRefused) {
  const auto outcome = run_command(
      {"sh", "-c", "ulimit -n 128; exec \"$0\" run -n 100 -- echo started", VERBATIM_PROGRAM});
  EXPECT_EQ(outcome.status, 125);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(lines_in(outcome.errors), 1) << outcome.errors;
}

TEST(Run, CoordinatesTheRanks) {
  const auto outcome = run_command(words({"-n", "4"}, {VERBATIM_RANK_PROGRAM}));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(sorted_lines(outcome.output),
              ElementsAre("[0] rank 0 of 4: sum 10", "[1] rank 1 of 4: sum 10",
                          "[2] rank 2 of 4: sum 10", "[3] rank 3 of 4: sum 10"));
}

TEST(Run, SurvivorsNameARankThatIsKilled) {
  const auto outcome =
      run_command(words({"-n", "4", "--keep-going"}, {VERBATIM_RANK_PROGRAM, "lose", "2"}));
  EXPECT_EQ(outcome.status, 128 + SIGKILL) << outcome.errors;
  EXPECT_THAT(sorted_lines(outcome.output), ElementsAre("[0] lost 2", "[1] lost 2", "[3] lost 2"));
}

TEST(Run, RaisesItsOwnLimitOfDescriptorsAndNotThatOfTheRanks) {
  const auto outcome =
      run_command({"sh", "-c", "ulimit -Sn 100; exec \"$0\" run -n 20 -- sh -c 'ulimit -Sn'",
                   VERBATIM_PROGRAM});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const auto lines = sorted_lines(outcome.output);
  ASSERT_EQ(lines.size(), 20);
  EXPECT_EQ(lines.front(), "[0] 100");
}

TEST(Run, StartsHundredsOfRanks) {
  const auto outcome = run_command(shell({"-n", "300"}, "echo $VERBATIM_RANK; echo e >&2"));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(lines_in(outcome.output), 300);
  EXPECT_EQ(lines_in(outcome.errors), 300);
}

}  // namespace
}  // namespace verbatim::test
