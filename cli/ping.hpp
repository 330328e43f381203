// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim ping`: does RDMA reach the other end, and how long does an answer take.
#include "command_line.hpp"

namespace verbatim::cli {

void add_ping(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
