// SPDX-License-Identifier: MIT OR Apache-2.0
// The program `verbatim`. Each subcommand is in a file of its own.
#include <algorithm>
#include <string>
#include <string_view>

#include "bench.hpp"
#include "command_line.hpp"
#include "demo.hpp"
#include "devices.hpp"
#include "doctor.hpp"
#include "explain.hpp"
#include "ping.hpp"
#include "preload.hpp"
#ifdef VERBATIM_CLI_RUN
#include "run.hpp"
#endif
#include "top.hpp"

namespace {

using namespace verbatim::cli;

/// One line for each mistake, and where to read on.
std::string one_line(const CLI::App* app, const CLI::Error& mistake) {
  const auto asked = app->get_subcommands();
  const std::string name = app->get_name() + (asked.empty() ? "" : " " + asked[0]->get_name());
  std::string line = name + ": " + mistake.what() + " (try: " + name + " --help)";
  std::ranges::replace(line, '\n', ' ');
  return line + '\n';
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"Tools of the RDMA library Verbatim"};
  app.set_version_flag("--version", VERBATIM_VERSION);
  app.require_subcommand(0, 1);  // None is said below: CLI11 would say it of a misspelt one, too.
  app.name("verbatim");
  app.failure_message(one_line);

  // What follows "--" is another program's command: CLI11 must not look into it.
  char** const end = arguments + count;
  char** const ours = std::find(arguments, end, std::string_view{"--"});
  CommandLine line;
  line.has_program = ours != end;
  if (line.has_program) line.program.assign(ours + 1, end);

  add_bench(app, line);
  add_demo(app, line);
  add_ping(app, line);
  add_preload(app, line);
  add_devices(app, line);
  add_doctor(app, line);
  add_explain(app, line);
#ifdef VERBATIM_CLI_RUN
  add_run(app, line);
#endif
  add_top(app, line);

  try {
    app.parse(static_cast<int>(ours - arguments), arguments);
    if (app.get_subcommands().empty()) throw CLI::RequiredError{"A subcommand"};
  } catch (const CLI::ParseError& mistake) {
    // Help and version are "mistakes" of status 0; a wrong command line has one status.
    return app.exit(mistake) == 0 ? kGood : kUsage;
  }
  return line.status;
}
