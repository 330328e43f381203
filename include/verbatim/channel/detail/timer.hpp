// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A call at a certain time. Embedded in the object that wants it: see
/// src/channel/timer_heap.hpp.
#include "verbatim/base/language.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace verbatim::detail {

class TimerHeap;

/// Nanoseconds of the steady clock.
using Nanoseconds = std::uint64_t;
inline constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();
/// An endless wait, as a time that can be added to the clock.
inline constexpr Nanoseconds kLongest = Nanoseconds{1} << 62;

struct Timer {
  explicit Timer(void (*call)(Timer& self) noexcept) noexcept : due(call) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

  void (*due)(Timer& self) noexcept;
  TimerHeap* heap = nullptr;  ///< Null: not in one.
  Nanoseconds when = kNever;
  std::size_t place = 0;
};

}  // namespace verbatim::detail
