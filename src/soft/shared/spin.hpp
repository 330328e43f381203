// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Waiting for a few instructions of another thread, without starving it on two cores.
///
/// Owns nothing. Any thread. A SpinLock has the rank of the Ranked around it. Hot.
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/relax_processor.hpp"

namespace verbatim::engine {

/// Pauses at first, then yields the processor: the holder may need it.
class Backoff {
 public:
  void wait() noexcept {
    if (yields()) {
      sched_yield();
    } else {
      ++rounds_;
      relax_processor();
    }
  }
  [[nodiscard]] bool yields() const noexcept { return rounds_ == kPauses; }

 private:
  static constexpr std::uint32_t kPauses = 64;

  std::uint32_t rounds_ = 0;
};

/// Between threads of one process; critical sections of tens of nanoseconds.
class SpinLock {
 public:
  void lock() noexcept {
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      lock_contended();
  }
  [[nodiscard]] bool try_lock() noexcept {
    return !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }
  [[nodiscard]] bool is_held() const noexcept { return held_.load(std::memory_order_acquire); }

 private:
  [[gnu::cold, gnu::noinline]] void lock_contended() noexcept {
    Backoff backoff;
    do {
      backoff.wait();
    } while (held_.load(std::memory_order_relaxed) ||
             held_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> held_{false};
};

}  // namespace verbatim::engine
