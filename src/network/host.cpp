// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/host.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

namespace verbatim::detail {
namespace {

/// "7b0c7a3e-..." as its 128 bits; 0 if it is none.
HostInfo parse_boot_id(std::string text) {
  std::erase(text, '-');
  HostInfo host;
  if (text.size() != 32) return host;
  const char* const middle = text.data() + 16;
  std::from_chars(text.data(), middle, host.high, 16);
  std::from_chars(middle, middle + 16, host.low, 16);
  return host;
}

/// All of the machine, and not those that this process may use: launchers bind each rank to
/// processors of its own, and what counts is whether there is one for each.
std::uint16_t online_processors() {
  return static_cast<std::uint16_t>(std::clamp<long>(sysconf(_SC_NPROCESSORS_ONLN), 1,
                                                     std::numeric_limits<std::uint16_t>::max()));
}

}  // namespace

HostInfo this_host() {
  std::string text;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> text;
  HostInfo host = parse_boot_id(text);
  if (host.high == 0 && host.low == 0) {
    // Where that cannot be read, the host's name has to do.
    std::array<char, 256> name{};
    static_cast<void>(gethostname(name.data(), name.size() - 1));
    host.high = 1;
    host.low = std::hash<std::string>{}(name.data());
  }
  host.processors = online_processors();
  return host;
}

}  // namespace verbatim::detail
