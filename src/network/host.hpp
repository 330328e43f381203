// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Which machine this is, and how many processors it has.
#include <cstdint>

namespace verbatim::detail {

struct HostInfo {
  std::uint64_t high = 0;  ///< 128 bits that are the same for all processes until the next boot.
  std::uint64_t low = 0;
  std::uint16_t processors = 1;
};
[[nodiscard]] HostInfo this_host();

}  // namespace verbatim::detail
