// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/timers.hpp"

#include <array>

namespace verbatim {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr unsigned kMaxAckRetries = 7;
constexpr unsigned kMaxLimitedRnrRetries = 6;  // 7 means "unlimited" on the wire.
constexpr unsigned kMaxTimerCode = 31;         // Five bits.

/// The wire format's table of receiver-not-ready timers, in units of 10 us. Code 0 is the longest.
constexpr std::array<std::uint32_t, kMaxTimerCode + 1> kRnrTimers = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr microseconds rnr_duration(unsigned code) { return microseconds{kRnrTimers[code] * 10}; }

Error bad_code(const char* operation, const char* field, unsigned value, unsigned limit) {
  return {.code = Errc::invalid_argument,
          .operation = operation,
          .field = field,
          .value = value,
          .limit = limit};
}

Error too_long(const char* operation, nanoseconds wanted, nanoseconds longest) {
  return {.code = Errc::limit_exceeded,
          .operation = operation,
          .field = "nanoseconds",
          .value = static_cast<std::uint64_t>(wanted.count()),
          .limit = static_cast<std::uint64_t>(longest.count())};
}

}  // namespace

Result<MaxAckRetries> MaxAckRetries::limited(unsigned retries) noexcept {
  if (retries > kMaxAckRetries)
    return std::unexpected(bad_code("MaxAckRetries::limited", "retries", retries, kMaxAckRetries));
  return MaxAckRetries{static_cast<std::uint8_t>(retries)};
}

Result<MaxRnrRetries> MaxRnrRetries::limited(unsigned retries) noexcept {
  if (retries > kMaxLimitedRnrRetries)
    return std::unexpected(
        bad_code("MaxRnrRetries::limited", "retries", retries, kMaxLimitedRnrRetries));
  return MaxRnrRetries{static_cast<std::uint8_t>(retries)};
}

Result<MaxRnrRetries> MaxRnrRetries::from_code(unsigned code) noexcept {
  if (code > kUnlimited)
    return std::unexpected(bad_code("MaxRnrRetries::from_code", "code", code, kUnlimited));
  return MaxRnrRetries{static_cast<std::uint8_t>(code)};
}

Result<MinRnrTimer> MinRnrTimer::from_code(unsigned code) noexcept {
  if (code > kMaxTimerCode)
    return std::unexpected(bad_code("MinRnrTimer::from_code", "code", code, kMaxTimerCode));
  return MinRnrTimer{static_cast<std::uint8_t>(code)};
}

Result<MinRnrTimer> MinRnrTimer::at_least(nanoseconds wanted) noexcept {
  // Codes 1 to 31 are ascending; code 0 is longer than all of them.
  for (unsigned code = 1; code <= kMaxTimerCode; ++code)
    if (rnr_duration(code) >= wanted) return MinRnrTimer{static_cast<std::uint8_t>(code)};
  if (rnr_duration(0) >= wanted) return MinRnrTimer{0};
  return std::unexpected(too_long("MinRnrTimer::at_least", wanted, rnr_duration(0)));
}

microseconds MinRnrTimer::duration() const noexcept { return rnr_duration(code_); }

Result<AckTimeout> AckTimeout::limited(unsigned code) noexcept {
  // 0 would mean "unlimited", which has its own function, unlimited().
  if (code == 0 || code > kMaxTimerCode)
    return std::unexpected(bad_code("AckTimeout::limited", "code", code, kMaxTimerCode));
  return AckTimeout{static_cast<std::uint8_t>(code)};
}

Result<AckTimeout> AckTimeout::from_code(unsigned code) noexcept {
  if (code > kMaxTimerCode)
    return std::unexpected(bad_code("AckTimeout::from_code", "code", code, kMaxTimerCode));
  return AckTimeout{static_cast<std::uint8_t>(code)};
}

Result<AckTimeout> AckTimeout::at_least(nanoseconds wanted) noexcept {
  // Compares durations instead of dividing, so that nothing is rounded off.
  for (unsigned code = 1; code <= kMaxTimerCode; ++code) {
    const AckTimeout candidate{static_cast<std::uint8_t>(code)};
    if (*candidate.duration() >= wanted) return candidate;
  }
  const AckTimeout longest{static_cast<std::uint8_t>(kMaxTimerCode)};
  return std::unexpected(too_long("AckTimeout::at_least", wanted, *longest.duration()));
}

}  // namespace verbatim
