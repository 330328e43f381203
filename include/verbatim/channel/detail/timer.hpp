// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Something that is called at a certain time. It lies in who wants to be called: see
/// src/channel/timer_heap.hpp.
#include <cstddef>
#include <cstdint>
#include <limits>

namespace verbatim::detail {

class TimerHeap;

/// Nanoseconds of the steady clock.
using Nanoseconds = std::uint64_t;
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
/// A wait without an end, as a time that can be added to the clock.
inline constexpr Nanoseconds kLongest = Nanoseconds{1} << 62;

struct Timer {
  explicit Timer(void (*call)(Timer& self) noexcept) noexcept : due(call) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

  void (*due)(Timer& self) noexcept;
  TimerHeap* heap = nullptr;  ///< Null: in none.
  Nanoseconds when = kNever;
  std::size_t place = 0;
};

}  // namespace verbatim::detail
