// SPDX-License-Identifier: MIT OR Apache-2.0
#include "top.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "ends.hpp"
#include "live_screen.hpp"
#include "measure/activity.hpp"
#include "measure/interrupt.hpp"

namespace verbatim::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct TopOptions {
  double interval_s = 1;
  std::uint64_t count = 0;  ///< 0: for ever where somebody looks, else once.
  bool json = false;
  ViewOptions view;
};

/// Lines or JSON, for a pipe.
int print(const TopOptions& options) {
  Activity before = look_around();
  const std::uint64_t count = std::max<std::uint64_t>(options.count, 1);
  for (std::uint64_t i = 0; i < count && !is_interrupted(); ++i) {
    const auto whole = static_cast<time_t>(options.interval_s);
    const timespec pause{
        .tv_sec = whole,
        .tv_nsec = static_cast<long>((options.interval_s - static_cast<double>(whole)) * 1e9)};
    nanosleep(&pause, nullptr);
    Activity now = look_around();
    if (options.json)
      fmt::print("{}\n", to_json(now, &before).dump());
    else
      for (const std::string& line : view_of(now, &before, options.view, 200))
        fmt::print("{}\n", line);
    std::fflush(stdout);
    before = std::move(now);
  }
  return interrupt_status();
}

int watch(const TopOptions& options) {
  LiveScreen screen;
  ViewOptions view = options.view;
  std::optional<Activity> before;
  Activity now = look_around();
  auto next = Clock::now();
  const auto interval = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>{options.interval_s});
  for (std::uint64_t drawn = 0; !is_interrupted();) {
    if (Clock::now() >= next) {
      if (drawn > 0) {
        before = std::move(now);
        now = look_around();
      }
      if (options.count != 0 && drawn > options.count) return kGood;
      ++drawn;
      next = Clock::now() + interval;
    }
    std::vector<std::string> lines = {
        fmt::format("verbatim top: every {:g} s   q quits, p shows queue pairs",
                    options.interval_s),
        ""};
    for (std::string& line :
         view_of(now, before ? &*before : nullptr, view, screen.terminal().columns()))
      lines.push_back(std::move(line));
    screen.draw(lines);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    const char key = screen.key_within(left);
    if (key == 'q' || key == 'Q') return kGood;
    if (key == 'p') view.queue_pairs = !view.queue_pairs;
  }
  return interrupt_status();
}

}  // namespace

void add_top(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<TopOptions>();
  CLI::App& command = *app.add_subcommand(
      "top", "Show counters of RDMA ports, and who uses the software device, live");
  command
      .add_option("-i,--interval", options->interval_s, "Seconds between two looks (default: 1)")
      ->check(CLI::Range(0.05, 3600.0));
  command
      .add_option("-n,--count", options->count, "Looks (default: until q in a terminal, else 1)")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  command.add_flag("-p,--queue-pairs", options->view.queue_pairs, "A line for each queue pair");
  command.add_flag("--json", options->json, "One JSON document in a line for each look");
  command.callback([options, &line] {
    line.status = guarded("top", [&] {
      catch_interrupts();
      const bool is_live = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
      return is_live && !options->json ? watch(*options) : print(*options);
    });
  });
}

}  // namespace verbatim::cli
