// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Units in which the tool counts.
#include <cstdint>

namespace verbatim::cli {

inline constexpr std::uint64_t kMiB = 1u << 20;

}  // namespace verbatim::cli
