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

/// The 128 bits of a boot id such as "7b0c7a3e-..."; 0 if the text is none.
HostInfo parse_boot_id(std::string text) {
  std::erase(text, '-');
  HostInfo host;
  if (text.size() != 32) return host;
  const char* const middle = text.data() + 16;
  std::from_chars(text.data(), middle, host.high, 16);
  std::from_chars(middle, middle + 16, host.low, 16);
  return host;
}

/// Counts all processors of the machine, not those that this process may use. Launchers bind each
/// rank to its own processors, and what matters is whether there is one for each rank.
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
    // If the boot id cannot be read, the host name takes its place.
    std::array<char, 256> name{};
    static_cast<void>(gethostname(name.data(), name.size() - 1));
    host.high = 1;
    host.low = std::hash<std::string>{}(name.data());
  }
  host.processors = online_processors();
  return host;
}

}  // namespace verbatim::detail
