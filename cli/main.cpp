// SPDX-License-Identifier: MIT OR Apache-2.0
// The program `verbatim`: what its options mean. Each subcommand is in a file of its own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "preload.hpp"

int main(int count, char** arguments) {
  using namespace verbatim::cli;
  CLI::App app{"Tools of the RDMA library Verbatim"};
  app.set_version_flag("--version", VERBATIM_VERSION);
  app.require_subcommand(1);
  int status = 0;

  // What follows "--" is another program's command: CLI11 must not look into it.
  char** const end = arguments + count;
  char** const ours = std::find(arguments, end, std::string_view{"--"});

  PreloadOptions preload_options;
  CLI::App& preload_command =
      *app.add_subcommand("preload", "Run a program that uses RDMA on the software device soft0");
  preload_command.add_flag("--stand-alone", preload_options.stand_alone,
                           "Replace libibverbs, for programs that look it up with dlopen and "
                           "dlvsym; real devices are not seen then");
  preload_command.footer("verbatim preload [OPTIONS] -- PROGRAM [ARGUMENT...]");
  preload_command.callback([&] {
    if (end - ours < 2) throw CLI::RequiredError{"-- PROGRAM"};
    preload_options.command.assign(ours + 1, end);
    status = preload(preload_options);
  });

  CLI11_PARSE(app, static_cast<int>(ours - arguments), arguments);
  return status;
}
