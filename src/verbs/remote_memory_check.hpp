// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What every decoder of a RemoteMemoryRegion refuses: a range beyond the end of memory.
#include <cstdint>
#include <limits>

#include "verbatim/verbs/remote_memory.hpp"

namespace verbatim::detail {

/// The length that ends at the last address. (One byte less if the range is all of memory, whose
/// length does not fit 64 bits.)
[[nodiscard]] constexpr std::uint64_t longest_at(std::uint64_t address) noexcept {
  constexpr auto kLast = std::numeric_limits<std::uint64_t>::max();
  return address == 0 ? kLast : kLast - address + 1;
}

[[nodiscard]] constexpr bool wraps_around(const RemoteMemoryRegion& region) noexcept {
  return region.length > longest_at(region.address);
}

}  // namespace verbatim::detail
