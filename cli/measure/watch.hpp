// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Spins, and looks up now and then: for Ctrl-C, for the peer's end, and for the time.
///
/// Hot path: go_on() is a count, until it has looked in vain for about ten microseconds.
#include <chrono>
#include <cstdint>

#include "base/relax_processor.hpp"
#include "measure/control.hpp"

namespace verbatim::cli {

class Watch {
 public:
  /// `yields`: there are fewer processors than spinning threads. `patience`: for one wait.
  Watch(const Control& control, bool yields, std::chrono::nanoseconds patience) noexcept
      : control_(control), patience_(patience), spins_(yields ? 1 : kSpins) {}

  /// A new wait.
  void begin() noexcept {
    left_ = spins_;
    looked_ = {};
    waited_ = {};
  }
  /// After each look in vain. False: the peer has said something, or is gone. Throws Interrupted,
  /// and Failure when the patience is over.
  [[nodiscard]] bool go_on() {
    finish_look();
    if (--left_ > 0) [[likely]]
      return true;
    return look_up();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint32_t kSpins = 1024;

  bool look_up();

  const Control& control_;
  std::chrono::nanoseconds patience_;
  std::uint32_t spins_;
  std::uint32_t left_ = 1;
  Clock::time_point looked_{};
  Clock::duration waited_{};
  Clock::time_point asked_{};
};

}  // namespace verbatim::cli
