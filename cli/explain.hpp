// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim explain`: what an error means, what causes it, and what to do.
#include <string>
#include <vector>

#include "command_line.hpp"

namespace verbatim::cli {

struct ExplainOptions {
  std::vector<std::string> words;  ///< Codes, statuses, errnos.
  std::string operation;           ///< The call that failed with the errno, or "".
  bool all = false;                ///< Everything there is, in full.
  bool list = false;               ///< Everything there is, a line for each.
  bool json = false;
};

void add_explain(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
