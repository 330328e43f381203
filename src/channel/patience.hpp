// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a waiter does between two empty polls, and when its time is over.
///
/// Its time starts at the first empty poll: a wait whose completion is there reads no clock.
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/relax_processor.hpp"
#include "verbatim/channel/operation_core.hpp"

namespace verbatim::detail {

class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  /// Sums with longer times would not fit the clock.
  static constexpr Timeout kLongest = std::chrono::hours{24 * 365};
  /// The longest sleep: events of the device and a lost wake-up are looked for at least so often.
  static constexpr auto kNap = std::chrono::milliseconds{20};

  Patience(ChannelState& channel, Timeout limit, Clock::time_point start = {}) noexcept
      : channel_(channel),
        limit_(std::min(limit < Timeout::zero() ? channel.options.timeout : limit, kLongest)),
        start_(start) {}

  [[nodiscard]] Clock::time_point start() const noexcept { return start_; }

  /// After an empty poll.
  [[nodiscard]] bool is_over() noexcept {
    now_ = Clock::now();
    if (start_ == Clock::time_point{}) start_ = now_;
    return now_ - start_ >= limit_;
  }
  /// After is_over().
  void pause() noexcept {
    const WaitPolicy& policy = channel_.options.wait;
    const auto waited = now_ - start_;
    if (waited < policy.spin) return relax_processor();
    if (!policy.sleep || waited - policy.spin < policy.yield) {
      sched_yield();
      return;
    }
    channel_.sleep(std::min(start_ + limit_, now_ + kNap));
  }

 private:
  ChannelState& channel_;
  Timeout limit_;
  Clock::time_point start_;  ///< 0: not started.
  Clock::time_point now_{};
};

}  // namespace verbatim::detail
