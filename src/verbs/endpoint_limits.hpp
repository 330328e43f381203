// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Limits of the wire that both encodings of an Endpoint check.
#include <cstdint>

namespace verbatim::detail {

inline constexpr std::uint32_t kMax24Bits = 0xffffff;  ///< Queue pair and sequence numbers.
inline constexpr std::uint8_t kMaxTimerCode = 31;

}  // namespace verbatim::detail
