// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a process, a directory of the software device and shared memory hold, as the kernel
/// counts it.
#include <sys/types.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace verbatim::test {

/// A figure that must not grow, by how much it may still vary, and what it is at least.
struct Figure {
  std::string name;
  std::size_t value;
  std::size_t slack;
  std::size_t least = 1;
  bool operator==(const Figure&) const = default;
};

/// For another process: open descriptors, mappings, threads, resident KiB.
[[nodiscard]] std::vector<Figure> footprint_of(pid_t process, const std::string& name);
/// For a directory: files, and their size in KiB.
[[nodiscard]] std::vector<Figure> footprint_of(const std::string& directory);

/// What the device has in /dev/shm, for any program.
class SharedMemory {
 public:
  SharedMemory() : before_(names()) {}
  /// Since this object exists.
  [[nodiscard]] Figure new_entries() const;

 private:
  [[nodiscard]] static std::set<std::string> names();
  std::set<std::string> before_;
};

}  // namespace verbatim::test
