// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How far apart the blocks of one allocation begin.
#include <cstddef>

namespace verbatim::detail {

/// A cache line, so that users of neighbouring blocks do not slow each other down.
inline constexpr std::size_t kBlockAlignment = 64;

[[nodiscard]] constexpr std::size_t stride_of(std::size_t bytes) noexcept {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

}  // namespace verbatim::detail
