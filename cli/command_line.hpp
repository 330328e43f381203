// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the subcommands share: the command line, and what becomes of it.
///
/// Each subcommand is in a file of its own and adds itself: add_NAME() declares its options, and a
/// callback runs it and leaves its exit status here.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace verbatim::cli {

/// Exit statuses of the subcommands that look and measure. `run` and `preload` have those of
/// env(1).
inline constexpr int kGood = 0;
inline constexpr int kBad = 1;    ///< It looked, and what it found is not good.
inline constexpr int kUsage = 2;  ///< The command line is wrong.

struct CommandLine {
  std::vector<std::string> program;  ///< What follows "--": another program and its arguments.
  bool has_program = false;          ///< There was a "--".
  int status = kGood;

  /// For a subcommand that starts a program: it must be there.
  [[nodiscard]] const std::vector<std::string>& required_program() const {
    if (program.empty()) throw CLI::RequiredError{"-- PROGRAM"};
    return program;
  }
};

}  // namespace verbatim::cli
