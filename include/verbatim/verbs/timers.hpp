// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Retry counts and timers in wire units, with conversions from durations.
///
/// The codes are traps: 0 means "for ever" in one field and 655 ms in another; 7 means "for ever"
/// in a third. Each type keeps its code valid. Durations round up, never down.
#include <chrono>
#include <cstdint>
#include <optional>

#include "verbatim/base/error.hpp"

namespace verbatim {

/// How often to resend when no acknowledgement comes: 0 to 7. (The kernel's Soft-RoCE treats 7, the
/// default, as unlimited; there, use 6 to notice a lost peer.)
class MaxAckRetries {
 public:
  constexpr MaxAckRetries() noexcept = default;
  [[nodiscard]] static Result<MaxAckRetries> limited(unsigned retries) noexcept;

  [[nodiscard]] constexpr std::uint8_t code() const noexcept { return code_; }
  [[nodiscard]] constexpr unsigned retries() const noexcept { return code_; }
  friend constexpr bool operator==(MaxAckRetries, MaxAckRetries) noexcept = default;

 private:
  explicit constexpr MaxAckRetries(std::uint8_t code) noexcept : code_(code) {}
  std::uint8_t code_ = 7;
};

/// How often to resend when the peer has no receive posted: 0 to 6, or unlimited.
class MaxRnrRetries {
 public:
  constexpr MaxRnrRetries() noexcept = default;  ///< Unlimited.
  [[nodiscard]] static constexpr MaxRnrRetries unlimited() noexcept { return {}; }
  [[nodiscard]] static Result<MaxRnrRetries> limited(unsigned retries) noexcept;
  [[nodiscard]] static Result<MaxRnrRetries> from_code(unsigned code) noexcept;

  [[nodiscard]] constexpr std::uint8_t code() const noexcept { return code_; }
  /// Empty when unlimited.
  [[nodiscard]] constexpr std::optional<unsigned> retries() const noexcept {
    if (code_ == kUnlimited) return std::nullopt;
    return code_;
  }
  friend constexpr bool operator==(MaxRnrRetries, MaxRnrRetries) noexcept = default;

 private:
  static constexpr std::uint8_t kUnlimited = 7;
  explicit constexpr MaxRnrRetries(std::uint8_t code) noexcept : code_(code) {}
  std::uint8_t code_ = kUnlimited;
};

/// The minimum time a sender waits after "no receive posted": 0.01 ms to 655.36 ms.
class MinRnrTimer {
 public:
  constexpr MinRnrTimer() noexcept = default;  ///< 0.64 ms.
  [[nodiscard]] static Result<MinRnrTimer> from_code(unsigned code) noexcept;
  /// The shortest timer that is not shorter than `wanted`; an error above 655.36 ms.
  [[nodiscard]] static Result<MinRnrTimer> at_least(std::chrono::nanoseconds wanted) noexcept;

  [[nodiscard]] constexpr std::uint8_t code() const noexcept { return code_; }
  [[nodiscard]] std::chrono::microseconds duration() const noexcept;
  friend constexpr bool operator==(MinRnrTimer, MinRnrTimer) noexcept = default;

 private:
  explicit constexpr MinRnrTimer(std::uint8_t code) noexcept : code_(code) {}
  std::uint8_t code_ = 12;
};

/// How long to wait for an acknowledgement before resending: 4.096 us << code, or unlimited. The
/// device may wait up to four times as long.
class AckTimeout {
 public:
  constexpr AckTimeout() noexcept = default;  ///< Code 14: 67.1 ms.
  /// The wire's code 0. A lost peer is then never noticed.
  [[nodiscard]] static constexpr AckTimeout unlimited() noexcept { return AckTimeout{0}; }
  [[nodiscard]] static Result<AckTimeout> limited(unsigned code) noexcept;    ///< 1 to 31.
  [[nodiscard]] static Result<AckTimeout> from_code(unsigned code) noexcept;  ///< 0 to 31.
  /// The shortest time-out that is not shorter than `wanted`; an error above code 31.
  [[nodiscard]] static Result<AckTimeout> at_least(std::chrono::nanoseconds wanted) noexcept;

  [[nodiscard]] constexpr std::uint8_t code() const noexcept { return code_; }
  /// Empty when unlimited.
  [[nodiscard]] constexpr std::optional<std::chrono::nanoseconds> duration() const noexcept {
    if (code_ == 0) return std::nullopt;
    return std::chrono::nanoseconds{std::int64_t{4096} << code_};
  }
  friend constexpr bool operator==(AckTimeout, AckTimeout) noexcept = default;

 private:
  explicit constexpr AckTimeout(std::uint8_t code) noexcept : code_(code) {}
  std::uint8_t code_ = 14;
};

}  // namespace verbatim
