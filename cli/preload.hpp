// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file `verbatim preload`: runs a program on the software device.
#include <string>
#include <vector>

namespace verbatim::cli {

struct PreloadOptions {
  std::vector<std::string> command;  ///< The program and its arguments; not empty.
  bool stand_alone = false;          ///< Replace libibverbs instead of standing in front of it.
};

/// Replaces this process by the program. Returns only on failure, an exit status as env(1) has:
/// 127 no such program, 126 it cannot be run, 125 our own library is not where it should be.
[[nodiscard]] int preload(const PreloadOptions& options);

}  // namespace verbatim::cli
