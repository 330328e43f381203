// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim preload`: runs a program on the software device.
#include "command_line.hpp"

namespace verbatim::cli {

/// Replaces this process with the program. Returns only on failure, with an exit status as in
/// env(1): 127 no such program, 126 it cannot be run, 125 our own library was not found.
void add_preload(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
