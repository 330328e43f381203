// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Calls at certain times: a heap of entries that are embedded in their owners.
///
/// An entry is in the heap at most once, and its time can change while it is there. A heap with
/// room for all of its owners allocates nothing.
///
/// Ownership: owners own their entries. An entry leaves the heap when it is destroyed.
/// Threads:   one at a time.
#include <cstddef>
#include <vector>

#include "verbatim/channel/detail/timer.hpp"

namespace verbatim::detail {

class TimerHeap {
 public:
  TimerHeap() = default;
  TimerHeap(const TimerHeap&) = delete;
  TimerHeap& operator=(const TimerHeap&) = delete;
  ~TimerHeap();

  /// Room for that many entries at once.
  void make_room(std::size_t count) {
    if (count > entries_.capacity()) entries_.reserve(2 * count);
  }
  /// Adds it, or changes its time. kNever: removes it.
  void set(Timer& timer, Nanoseconds when);
  void remove(Timer& timer) noexcept;
  [[nodiscard]] Nanoseconds first() const noexcept {
    return entries_.empty() ? kNever : entries_.front()->when;
  }
  /// Removes and returns the first one if its time has come; null otherwise.
  [[nodiscard]] Timer* take_due(Nanoseconds now) noexcept;

 private:
  void put(Timer& timer, std::size_t place) noexcept;
  void rise(Timer& timer) noexcept;
  void sink(Timer& timer) noexcept;

  std::vector<Timer*> entries_{};
};

}  // namespace verbatim::detail
