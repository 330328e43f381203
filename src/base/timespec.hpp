// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A time in the form of system calls.
#include <chrono>
#include <ctime>

namespace verbatim::detail {

/// `time` must not be negative.
[[nodiscard]] constexpr timespec to_timespec(std::chrono::nanoseconds time) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
}

}  // namespace verbatim::detail
