// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim doctor`: what is wrong with RDMA on this machine, and what puts it right.
///
/// Status 1 if a finding is an error.
#include "command_line.hpp"

namespace verbatim::cli {

void add_doctor(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
