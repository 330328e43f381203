// SPDX-License-Identifier: MIT OR Apache-2.0
// The program `verbatim`: what its options mean. Each subcommand is in a file of its own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "preload.hpp"
#ifdef VERBATIM_CLI_RUN
#include "run.hpp"
#endif

namespace {

using namespace verbatim::cli;

/// One line for each mistake.
std::string one_line(const CLI::App* app, const CLI::Error& mistake) {
  std::string line = app->get_name() + ": " + mistake.what();
  std::ranges::replace(line, '\n', ' ');
  return line + '\n';
}

#ifdef VERBATIM_CLI_RUN
CLI::App& add_run(CLI::App& app, RunOptions& options) {
  CLI::App& command =
      *app.add_subcommand("run", "Start a program as the ranks of a job on this machine");
  command.add_option("-n,--ranks", options.ranks, "How many")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{kMostRanks}));
  command.add_option("--job", options.job, "The job's name (default: verbatim)");
  command.add_flag("--keep-going", options.keep_going, "When a rank fails, let the others go on");
  command.add_flag("!--no-prefix", options.prefix,
                   "Leave the output alone; else each line begins with [RANK]");
  command
      .add_option("--grace", options.grace_s,
                  "Seconds from SIGTERM to SIGKILL for the others when a rank fails (default: 5)")
      ->check(CLI::Range(0.0, 86400.0));
  command.footer("verbatim run -n RANKS [OPTIONS] -- PROGRAM [ARGUMENT...]");
  return command;
}
#endif

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"Tools of the RDMA library Verbatim"};
  app.set_version_flag("--version", VERBATIM_VERSION);
  app.require_subcommand(1);
  app.name("verbatim");
  app.failure_message(one_line);
  int status = 0;

  // What follows "--" is another program's command: CLI11 must not look into it.
  char** const end = arguments + count;
  char** const ours = std::find(arguments, end, std::string_view{"--"});
  const auto command = [&] {
    if (end - ours < 2) throw CLI::RequiredError{"-- PROGRAM"};
    return std::vector<std::string>(ours + 1, end);
  };

  PreloadOptions preload_options;
  CLI::App& preload_command =
      *app.add_subcommand("preload", "Run a program that uses RDMA on the software device soft0");
  preload_command.add_flag("--stand-alone", preload_options.stand_alone,
                           "Replace libibverbs, for programs that look it up with dlopen and "
                           "dlvsym; real devices are not seen then");
  preload_command.footer("verbatim preload [OPTIONS] -- PROGRAM [ARGUMENT...]");
  preload_command.callback([&] {
    preload_options.command = command();
    status = preload(preload_options);
  });

#ifdef VERBATIM_CLI_RUN
  RunOptions run_options;
  CLI::App& run_command = add_run(app, run_options);
  run_command.callback([&] {
    run_options.command = command();
    status = run(run_options);
  });
#endif

  CLI11_PARSE(app, static_cast<int>(ours - arguments), arguments);
  return status;
}
