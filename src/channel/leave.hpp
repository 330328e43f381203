// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How two channels part: neither stops its device while the other may still need it.
///
/// A state machine that never waits. Once it has begun, ChannelState::step() drives it, and ends
/// the channel when it is over.
#include <chrono>
#include <cstdint>
#include <utility>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

struct ChannelState;

class Leave {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A second call only changes the deadline.
  void begin(Time deadline) noexcept;
  [[nodiscard]] bool has_begun() const noexcept { return stage_ != Stage::none; }
  [[nodiscard]] Time deadline() const noexcept { return deadline_; }

  /// Waits for this side's sends to end. Then it says "done" on the link, and serves the device
  /// until the peer says so too. A peer that is gone counts as done. True: over, or out of time.
  [[nodiscard]] bool step(ChannelState& state, Time now) noexcept;
  /// The poll(2) events it waits for at the link, besides completions; 0 for none.
  [[nodiscard]] short wanted() const noexcept;
  /// Call it when it is over; returns the result once.
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
