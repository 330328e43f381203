// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim run`: starts the ranks of a job on this machine, and coordinates them.
#include <cstdint>
#include <string>
#include <vector>

#include "command_line.hpp"

namespace verbatim::cli {

inline constexpr std::uint32_t kMostRanks = 4096;

struct RunOptions {
  std::uint32_t ranks = 0;           ///< 1 to kMostRanks.
  std::vector<std::string> command;  ///< The program and its arguments; not empty.
  std::string job = "verbatim";
  bool keep_going = false;  ///< A rank's failure does not end the others.
  bool prefix = true;       ///< Output line by line, with the rank before it.
  double grace_s = 5;       ///< From SIGTERM to SIGKILL, when the others must end.
};

/// Returns when every rank is gone: 0, or the status of the first that failed (128 plus the signal
/// for one that was killed). 127 no such program, 126 it cannot be run, 125 our own failure.
void add_run(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
