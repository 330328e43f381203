// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Times in the form of timers: nanoseconds of the steady clock.
#include <algorithm>
#include <chrono>

#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/timer.hpp"

namespace verbatim::detail {

[[nodiscard]] inline Nanoseconds to_number(std::chrono::steady_clock::time_point time) noexcept {
  if (time == std::chrono::steady_clock::time_point::max()) return kNever;
  return static_cast<Nanoseconds>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}
[[nodiscard]] inline std::chrono::steady_clock::time_point to_time(Nanoseconds number) noexcept {
  return std::chrono::steady_clock::time_point{std::chrono::nanoseconds{number}};
}
[[nodiscard]] inline Nanoseconds clock_now() noexcept {
  return to_number(std::chrono::steady_clock::now());
}

/// The end if it begins now; at most kLongest. The channel's default, which only the channel knows,
/// counts as none.
[[nodiscard]] inline Nanoseconds end_of(Deadline deadline) noexcept {
  if (deadline.kind() == Deadline::Kind::own) return kLongest;
  return std::min(to_number(deadline.end(std::chrono::steady_clock::now())), kLongest);
}

}  // namespace verbatim::detail
