// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file libsodium, made ready once. All cryptography of the library is its.
#include <sodium.h>

#include <cstddef>

#include "verbatim/base/check.hpp"

namespace verbatim::detail {

/// Before anything else of it is called. Any thread.
inline void prepare_sodium() {
  static const bool ready = sodium_init() >= 0;
  check(ready, "libsodium: the system has no source of random numbers");
}

[[nodiscard]] inline unsigned char* to_sodium(std::byte* bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes);
}
[[nodiscard]] inline const unsigned char* to_sodium(const std::byte* bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace verbatim::detail
