// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One function of bytes, for libFuzzer. What must hold is require()d.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace verbatim::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace verbatim::fuzz

#define VERBATIM_FUZZ(bytes)                                                          \
  static void fuzz_one(std::span<const std::byte> bytes);                             \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);  \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    fuzz_one({reinterpret_cast<const std::byte*>(data), size});                       \
    return 0;                                                                         \
  }                                                                                   \
  static void fuzz_one(std::span<const std::byte> bytes)
