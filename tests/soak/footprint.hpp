// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a process and a directory of the software device hold, as the kernel counts it.
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace verbatim::test {

/// A figure that must not grow, and by how much it may still vary.
struct Figure {
  std::string name;
  std::size_t value;
  std::size_t slack;
};

/// For another process: open descriptors, mappings, threads, resident KiB.
[[nodiscard]] std::vector<Figure> footprint_of(pid_t process, const std::string& name);
/// For a directory: files, and their size in KiB.
[[nodiscard]] std::vector<Figure> footprint_of(const std::string& directory);

}  // namespace verbatim::test
