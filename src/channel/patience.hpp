// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a waiter does between two empty polls, and when its time is over.
///
/// Its time starts at the first empty poll: if the completion is already there, a wait reads no
/// clock.
#include <chrono>

#include "verbatim/channel/deadline.hpp"

namespace verbatim::detail {

struct ChannelState;

class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  /// The longest sleep: it checks for device events and a lost wake-up at least this often.
  static constexpr auto kNap = std::chrono::milliseconds{20};
  /// How rarely it reads the clock while completions come: on a shared queue they may be for
  /// others.
  static constexpr unsigned kBusyTurns = 64;

  Patience(ChannelState& channel, Deadline deadline, Clock::time_point start = {}) noexcept;

  [[nodiscard]] Clock::time_point start() const noexcept { return start_; }

  /// After a poll that found something: whether to check the clock and interrupts anyway.
  [[nodiscard]] bool is_long_busy() noexcept { return ++busy_turns_ % kBusyTurns == 0; }
  /// After an empty poll.
  [[nodiscard]] bool is_over() noexcept {
    now_ = Clock::now();
    if (start_ == Clock::time_point{}) {
      start_ = now_;
      if (deadline_.kind() == Deadline::Kind::relative) end_ = start_ + deadline_.limit();
    }
    return now_ >= end_;
  }
  /// After is_over().
  [[nodiscard]] Clock::time_point now() const noexcept { return now_; }
  /// After is_over(). Spins, then yields the processor, then sleeps.
  void pause() noexcept;

 private:
  /// Sleeps until there may be something to do.
  void sleep(Clock::time_point until) noexcept;

  ChannelState& channel_;
  Deadline deadline_;
  Clock::time_point start_;  ///< 0: not started.
  Clock::time_point end_;
  Clock::time_point now_{};
  unsigned busy_turns_ = 0;
  bool ignores_waker_ = false;
};

}  // namespace verbatim::detail
