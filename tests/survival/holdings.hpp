// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What this process holds, from /proc.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>

namespace verbatim::test {

struct Holdings {
  long descriptors = 0;
  long mappings = 0;
  long address_space_kib = 0;
  long resident_kib = 0;

  [[nodiscard]] static Holdings now() {
    Holdings all;
    const std::filesystem::directory_iterator descriptors{"/proc/self/fd"};
    all.descriptors = std::distance(begin(descriptors), end(descriptors));
    std::ifstream maps{"/proc/self/maps"};
    for (std::string line; std::getline(maps, line);) ++all.mappings;
    std::ifstream status{"/proc/self/status"};
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmSize:")) all.address_space_kib = std::stol(line.substr(7));
      if (line.starts_with("VmRSS:")) all.resident_kib = std::stol(line.substr(6));
    }
    return all;
  }
  /// Some slack for allocators and thread stacks; less than two peers need.
  [[nodiscard]] bool is_like(const Holdings& before) const {
    return descriptors <= before.descriptors + 2 && mappings <= before.mappings + 4 &&
           address_space_kib <= before.address_space_kib + 256 * 1024 &&
           resident_kib <= before.resident_kib + 6 * 1024;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Holdings& all) {
  return out << all.descriptors << " descriptors, " << all.mappings << " mappings, "
             << all.address_space_kib / 1024 << " MiB of addresses, " << all.resident_kib / 1024
             << " MiB resident";
}

}  // namespace verbatim::test
