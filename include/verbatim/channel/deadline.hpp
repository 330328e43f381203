// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How long a call may wait: a duration, until a time, for ever, or the channel's default.
///
///     pending.wait(50ms);   pending.wait(start + 50ms);   pending.wait(kForever); pending.wait();
///
/// A duration stays relative, so that the clock is not read unless the call has to wait: the
/// duration starts at the first poll that finds nothing. A time in the past means now: the call
/// looks once and does not wait. A time beyond the range of the clock means never.
#include "verbatim/base/language.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace verbatim {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::uint8_t { own, relative, absolute, never };

  /// The channel's default (ChannelOptions::timeout).
  constexpr Deadline() noexcept = default;
  template <class Rep, class Period>
  constexpr Deadline(std::chrono::duration<Rep, Period> limit) noexcept
      : Deadline(Kind::relative, to_nanoseconds(limit)) {}
  template <class Duration>
  constexpr Deadline(std::chrono::time_point<Clock, Duration> when) noexcept
      : Deadline(Kind::absolute, to_nanoseconds(when.time_since_epoch())) {}
  [[nodiscard]] static constexpr Deadline never() noexcept { return {Kind::never, 0}; }

  [[nodiscard]] constexpr Kind kind() const noexcept { return kind_; }
  /// For a relative one; not negative.
  [[nodiscard]] constexpr std::chrono::nanoseconds limit() const noexcept {
    return std::chrono::nanoseconds{nanoseconds_};
  }
  /// For an absolute one.
  [[nodiscard]] constexpr Clock::time_point when() const noexcept {
    return Clock::time_point{std::chrono::duration_cast<Clock::duration>(limit())};
  }
  /// The end if it starts at `start`. Not for the channel's default, which only the channel knows.
  [[nodiscard]] constexpr Clock::time_point end(Clock::time_point start) const noexcept {
    if (kind_ == Kind::never) return Clock::time_point::max();
    return kind_ == Kind::absolute ? when() : start + limit();
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  /// Sums with longer times would not fit the clock.
  static constexpr std::int64_t kLongest = kNever / 4;

  constexpr Deadline(Kind kind, std::int64_t nanoseconds) noexcept
      : nanoseconds_(nanoseconds), kind_(nanoseconds == kNever ? Kind::never : kind) {}

  /// Not negative; kNever for what does not fit.
  template <class Rep, class Period>
  static constexpr std::int64_t to_nanoseconds(
      std::chrono::duration<Rep, Period> duration) noexcept {
    if (!(duration > std::chrono::duration<Rep, Period>::zero()))
      return 0;  // Also what is no number.
    if constexpr (std::is_same_v<std::chrono::duration<Rep, Period>, std::chrono::nanoseconds>) {
      return duration.count() > kLongest ? kNever : duration.count();
    } else {
      using Wide = std::chrono::duration<long double, std::nano>;
      const long double wide = Wide{duration}.count();
      return wide > static_cast<long double>(kLongest) ? kNever : static_cast<std::int64_t>(wide);
    }
  }

  std::int64_t nanoseconds_ = 0;
  Kind kind_ = Kind::own;
};

/// For a server's receives: ended by the peer, a cancel or the device, and by nothing else.
inline constexpr Deadline kForever = Deadline::never();

}  // namespace verbatim
