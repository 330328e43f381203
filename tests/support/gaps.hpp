// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How long a program had to wait, and how long this machine makes everything wait.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>
#include <utility>

namespace verbatim::test {

/// The longest time between two calls of tick().
class Gaps {
 public:
  using Clock = std::chrono::steady_clock;

  void tick() {
    const auto now = Clock::now();
    longest_ = std::max(longest_, now - std::exchange(last_, now));
  }
  [[nodiscard]] std::chrono::milliseconds longest() const {
    return std::chrono::ceil<std::chrono::milliseconds>(longest_);
  }

 private:
  Clock::time_point last_ = Clock::now();
  Clock::duration longest_{0};
};

/// A thread with almost nothing to do, which still does not always get a processor. The time it had
/// to wait is also allowed to others.
class Stalls {
 public:
  [[nodiscard]] std::chrono::milliseconds longest() const { return longest_.load(); }

 private:
  std::atomic<std::chrono::milliseconds> longest_{};
  std::jthread thread_{[this](const std::stop_token& stop) {
    Gaps gaps;
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});  // wait: that is what is measured
      gaps.tick();
      longest_ = gaps.longest();
    }
  }};
};

}  // namespace verbatim::test
