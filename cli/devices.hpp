// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim devices`: the devices, their ports and addresses, and which one a program gets.
///
/// Status 1 if open_device() takes none.
#include "command_line.hpp"

namespace verbatim::cli {

void add_devices(CLI::App& app, CommandLine& line);

}  // namespace verbatim::cli
