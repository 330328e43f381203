// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file libsodium, initialised once. It provides all of the library's cryptography.
#include <sodium.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "verbatim/base/check.hpp"

namespace verbatim::detail {

/// Call it before anything else of libsodium. Any thread.
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

/// BLAKE2b of the parts, one after another.
template <std::size_t Bytes>
[[nodiscard]] std::array<std::byte, Bytes> keyed_hash(
    std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) {
  prepare_sodium();
  crypto_generichash_state state;
  std::array<std::byte, Bytes> result;
  crypto_generichash_init(&state, to_sodium(key.data()), key.size(), result.size());
  for (const auto part : parts)
    crypto_generichash_update(&state, to_sodium(part.data()), part.size());
  crypto_generichash_final(&state, to_sodium(result.data()), result.size());
  sodium_memzero(&state, sizeof state);
  return result;
}

}  // namespace verbatim::detail
