// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Unpredictable numbers, for first sequence numbers and nonces. Any thread.
#include <sys/random.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

namespace verbatim::detail {

[[nodiscard]] inline std::uint64_t random_u64() noexcept {
  std::uint64_t value = 0;
  ssize_t got = 0;
  do {
    got = getrandom(&value, sizeof value, 0);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof value)) return value;
  // A sandbox may forbid the call. A value that differs from run to run is then the best available;
  // the multiplication spreads the fast low bits of the clock over the word.
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  const auto mixed = static_cast<std::uint64_t>(now) * 0x9e3779b97f4a7c15u;
  return mixed ^ mixed >> 32;
}

}  // namespace verbatim::detail
