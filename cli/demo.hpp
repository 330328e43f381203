// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim demo`: what RDMA does on this machine, in a few seconds. `./demo` runs it.
#include "command_line.hpp"

namespace verbatim::cli {

void add_demo(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
