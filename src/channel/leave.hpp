// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How two channels part: neither stops its device while the other may still need it.
///
/// A state machine that never waits. ChannelState::step() drives it once it has begun, and ends the
/// channel when it is over.
#include <chrono>
#include <cstdint>
#include <utility>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

struct ChannelState;

class Leave {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Again: only the deadline is new.
  void begin(Time deadline) noexcept;
  [[nodiscard]] bool has_begun() const noexcept { return stage_ != Stage::none; }
  [[nodiscard]] Time deadline() const noexcept { return deadline_; }

  /// Our own sends come to their end; then it says "done" on the link, and serves the device until
  /// the peer says so too. A peer that is gone is done. True: over, or its time is.
  [[nodiscard]] bool step(ChannelState& state, Time now) noexcept;
  /// What it waits for at the link, besides completions, in poll(2)'s words; 0 for nothing.
  [[nodiscard]] short wanted() const noexcept;
  /// When it is over; told once.
  [[nodiscard]] Result<void> take_result() noexcept { return std::exchange(result_, {}); }

 private:
  enum class Stage : std::uint8_t { none, finishing, telling, hearing, over };
  static Stage finish_sends(const ChannelState& state) noexcept;
  Stage tell(ChannelState& state) noexcept;
  Stage hear(ChannelState& state) noexcept;
  Stage end(const Result<void>& how) noexcept;

  Stage stage_ = Stage::none;
  Time deadline_{};
  Result<void> result_{};
};

}  // namespace verbatim::detail
