// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Waiting for another process, which may be dead or stopped.
///
/// Asking the kernel about it costs more than most waits take, so this says when to ask. It goes by
/// the clock and not by rounds: beside other programs, each round may cost a turn of the scheduler.
///
/// Owns nothing. Any thread, without locks. Not hot.
#include <chrono>

#include "soft/shared/spin.hpp"

namespace verbatim::engine {

class LongWait {
 public:
  using Clock = std::chrono::steady_clock;

  /// Pauses. True: it is time to ask, and waited() is up to date. This process may have been
  /// stopped meanwhile, so look again at what you wait for, and only then at waited().
  [[nodiscard]] bool pause() noexcept {
    backoff_.wait();
    if (!backoff_.yields()) return false;
    const Clock::time_point now = Clock::now();
    if (now < ask_at_) return false;
    ask_at_ = now + kBetweenQuestions;
    waited_ = now - start_;
    return true;
  }
  [[nodiscard]] Clock::duration waited() const noexcept { return waited_; }

 private:
  static constexpr std::chrono::microseconds kBetweenQuestions{100};

  Backoff backoff_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point ask_at_ = start_ + kBetweenQuestions;
  Clock::duration waited_{};
};

}  // namespace verbatim::engine
