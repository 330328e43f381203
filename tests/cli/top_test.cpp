// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: `verbatim top` shows ports with their rates and the processes on soft0, in a terminal, in a
//       pipe and as JSON; it heeds keys and a new size, and gives the terminal back.
// Method: the program itself in a pseudo-terminal beside one that listens; counters of a made-up
//         machine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "measure/activity.hpp"
#include "measure/counters.hpp"
#include "support/command.hpp"
#include "support/pty.hpp"

namespace verbatim::test {
namespace {

namespace fs = std::filesystem;
using namespace verbatim::cli;
using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A directory that goes with the test.
struct Folder {
  explicit Folder(const char* name)
      : path(fs::path{testing::TempDir()} / fmt::format("verbatim-{}-{}", name, getpid())) {
    fs::create_directories(path);
    fs::permissions(path, fs::perms::owner_all);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((path / file).parent_path());
    std::ofstream{path / file} << text << '\n';
  }
  fs::path path;
};

/// A process on soft0, in a directory of its own.
struct Somebody {
  Somebody()
      : variables{"VERBATIM_DEVICE=soft0", "VERBATIM_SOFT_DIR=" + folder.path.string()},
        command({VERBATIM_PROGRAM, "bench", "--listen", "--port", "0"}, variables) {
    EXPECT_TRUE(command.prints("listening"));
  }
  Folder folder{"soft"};
  std::vector<std::string> variables;
  Command command;
};

TEST(Counters, AreReadOfEveryPort) {
  const Folder sys{"sys"};
  sys.put("mlx5_0/ports/1/state", "4: ACTIVE");
  sys.put("mlx5_0/ports/1/counters/port_xmit_data", "250");
  sys.put("mlx5_0/ports/1/counters/port_rcv_packets", "7");
  sys.put("mlx5_0/ports/1/hw_counters/out_of_sequence", "3");
  sys.put("mlx5_0/ports/1/hw_counters/lifespan", "10");
  sys.put("mlx5_0/ports/1/counters/odd", "N/A (not supported)");
  sys.put("mlx5_0/ports/2/state", "1: DOWN");
  sys.put("a_rxe/ports/1/state", "4: ACTIVE");
  const auto ports = read_counters(sys.path);
  ASSERT_EQ(ports.size(), 3u);
  EXPECT_EQ(ports[0].device, "a_rxe");
  EXPECT_EQ(ports[1].state, "ACTIVE");
  EXPECT_EQ(ports[2].port, 2u);
  const std::map<std::string, std::uint64_t> expected = {
      {"out_of_sequence", 3}, {"port_rcv_packets", 7}, {"port_xmit_data", 1000}};
  EXPECT_EQ(ports[1].values, expected);
  EXPECT_TRUE(read_counters(sys.path / "nowhere").empty());
}

Activity some_activity(std::uint64_t packets, std::uint32_t taken, std::chrono::seconds at) {
  Activity result;
  result.when = std::chrono::steady_clock::time_point{at};
  result.ports = {{.device = "mlx5_0", .port = 1, .state = "ACTIVE", .values = {}}};
  result.ports[0].values = {{"port_rcv_packets", packets}, {"quiet", 0}};
  soft::InspectedProcess process{.slot = 0, .pid = 42, .is_alive = true};
  process.queue_pairs = {{.number = QpNumber{64}, .state = 3, .type = 2, .receives_taken = taken}};
  result.soft = {.directory = "/place", .processes = {process}};
  result.commands[42] = "worker";
  return result;
}

TEST(TopView, HasRatesSinceTheLookBefore) {
  // The number of receives goes round in between.
  const Activity before = some_activity(100, 0xffff'fff0, 10s);
  const Activity now = some_activity(300, 4, 12s);
  const auto lines = view_of(now, &before, {.queue_pairs = true}, 200);
  const std::string all = fmt::format("{}", fmt::join(lines, "\n"));
  EXPECT_THAT(all, HasSubstr("100/s"));
  EXPECT_THAT(all, HasSubstr("10/s"));
  EXPECT_THAT(all, HasSubstr("worker"));
  EXPECT_THAT(all, HasSubstr("qp 0x000040 RC RTS"));
  EXPECT_THAT(all, Not(HasSubstr("quiet")));
  EXPECT_THAT(fmt::format("{}", fmt::join(view_of(now, nullptr, {}, 200), "\n")),
              Not(HasSubstr("/s")));
}

TEST(TopView, IsAsWideAsTheTerminal) {
  for (const std::string& line : view_of(some_activity(1, 1, 1s), nullptr, {}, 20))
    EXPECT_LE(line.size(), 20u);
}

TEST(Top, ShowsAProcessInAPipe) {
  const Somebody somebody;
  const auto outcome =
      run_command({VERBATIM_PROGRAM, "top", "-i", "0.05", "-n", "2"}, somebody.variables);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("soft0: 1 process in " + somebody.folder.path.string()));
  EXPECT_THAT(outcome.output, HasSubstr(fmt::format("{} verbatim", somebody.command.pid())));
  EXPECT_EQ(outcome.output.find('\x1b'), std::string::npos);
}

TEST(Top, SaysTheSameAsJson) {
  const Somebody somebody;
  const auto outcome =
      run_command({VERBATIM_PROGRAM, "top", "-i", "0.05", "--json"}, somebody.variables);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const json process = json::parse(outcome.output)["soft"]["processes"][0];
  EXPECT_EQ(process["pid"], somebody.command.pid());
  EXPECT_EQ(process["alive"], true);
  EXPECT_EQ(process["command"], "verbatim");
}

TEST(Top, IsLiveInATerminal) {
  Somebody somebody;
  PseudoTerminal terminal{{VERBATIM_PROGRAM, "top", "-i", "0.1"}, somebody.variables, {24, 100}};
  ASSERT_TRUE(terminal.shows("soft0: 1 process")) << terminal.screen();
  ASSERT_TRUE(terminal.shows(fmt::format("{} verbatim", somebody.command.pid())));
  somebody.command.signal(SIGTERM);
  static_cast<void>(somebody.command.finish());
  EXPECT_TRUE(terminal.shows("soft0: no process")) << terminal.screen();
  terminal.resize({10, 20});
  EXPECT_TRUE(terminal.stops_showing("quits")) << terminal.screen();
  terminal.press("q");
  EXPECT_EQ(terminal.finish(), 0);
  EXPECT_THAT(terminal.raw(), HasSubstr("\x1b[?1049l"));  // The terminal is given back.
  EXPECT_THAT(terminal.raw(), HasSubstr("\x1b[?25h"));
}

TEST(Top, EndsAtCtrlCAndGivesTheTerminalBack) {
  const Folder nobody{"nobody"};
  PseudoTerminal terminal{
      {VERBATIM_PROGRAM, "top"}, {"VERBATIM_SOFT_DIR=" + nobody.path.string()}, {24, 80}};
  ASSERT_TRUE(terminal.shows("no process"));
  terminal.press("\x03");
  EXPECT_EQ(terminal.finish(), 130);
  EXPECT_THAT(terminal.raw(), HasSubstr("\x1b[?1049l"));
}

TEST(Top, RefusesWrongUse) {
  EXPECT_EQ(run_command({VERBATIM_PROGRAM, "top", "-i", "0"}).status, 2);
  EXPECT_EQ(run_command({VERBATIM_PROGRAM, "top", "-n", "x"}).status, 2);
  const Folder folder{"file"};
  folder.put("file", "no directory");
  const auto outcome = run_command({VERBATIM_PROGRAM, "top", "-i", "0.05"},
                                   {"VERBATIM_SOFT_DIR=" + (folder.path / "file").string()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("verbatim top: "));
}

TEST(BenchInATerminal, ShowsProgressAndColours) {
  PseudoTerminal terminal{{VERBATIM_PROGRAM, "bench", "-s", "8", "--duration", "0.5"},
                          {"VERBATIM_DEVICE=soft0", "LC_ALL=C.UTF-8"},
                          {40, 120}};
  EXPECT_EQ(terminal.finish(), 0) << terminal.screen();
  EXPECT_THAT(terminal.raw(), HasSubstr("write 8 latency"));  // Perhaps for a moment only.
  EXPECT_THAT(terminal.raw(), HasSubstr("\x1b[1m"));
  EXPECT_THAT(terminal.screen(), Not(HasSubstr("write 8 latency")));  // The line is gone again.
  EXPECT_THAT(terminal.screen(), HasSubstr("bandwidth in MiB/s"));
}

}  // namespace
}  // namespace verbatim::test
