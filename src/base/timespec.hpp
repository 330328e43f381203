// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A time as the system's calls take it.
#include <chrono>
#include <ctime>

namespace verbatim::detail {

/// Not of a negative one.
[[nodiscard]] constexpr timespec to_timespec(std::chrono::nanoseconds time) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
}

}  // namespace verbatim::detail
