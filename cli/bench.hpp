// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim bench`: latency and bandwidth of sends, writes, reads and atomics, over sizes.
#include "command_line.hpp"

namespace verbatim::cli {

void add_bench(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
