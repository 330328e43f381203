// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How long a program had to wait, and how long this machine makes everything wait.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

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

/// A thread on each processor with almost nothing to do, which still does not always get it. The
/// time that one of them had to wait is also allowed to others. One thread is not enough: the host
/// may take away a single processor, on which it does not run.
class Stalls {
 public:
  Stalls() {
    cpu_set_t ours;
    CPU_ZERO(&ours);
    if (sched_getaffinity(0, sizeof ours, &ours) != 0) CPU_SET(0, &ours);
    for (std::size_t processor = 0; processor < CPU_SETSIZE; ++processor)
      if (CPU_ISSET(processor, &ours))
        threads_.emplace_back(
            [this, processor](const std::stop_token& stop) { watch(processor, stop); });
  }
  Stalls(const Stalls&) = delete;
  Stalls& operator=(const Stalls&) = delete;

  [[nodiscard]] std::chrono::milliseconds longest() const {
    return std::chrono::milliseconds{longest_ms_.load()};
  }

 private:
  void watch(std::size_t processor, const std::stop_token& stop) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    sched_setaffinity(0, sizeof only, &only);  // If that fails, it runs anywhere.
    Gaps gaps;
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});  // wait: that is what is measured
      gaps.tick();
      const std::int64_t mine = gaps.longest().count();
      for (std::int64_t all = longest_ms_.load();
           mine > all && !longest_ms_.compare_exchange_weak(all, mine);) {
      }
    }
  }

  std::atomic<std::int64_t> longest_ms_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace verbatim::test
