// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim top`: counters of RDMA ports, and who uses the software device, live.
#include "command_line.hpp"

namespace verbatim::cli {

void add_top(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
