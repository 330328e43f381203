// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim preload`: runs a program on the software device.
#include "command_line.hpp"

namespace verbatim::cli {

/// Replaces this process by the program. Returns only on failure, an exit status as env(1) has:
/// 127 no such program, 126 it cannot be run, 125 our own library is not where it should be.
void add_preload(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
