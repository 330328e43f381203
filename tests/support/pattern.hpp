// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Bytes that a seed determines: written on one side, checked one by one on the other.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::test {

void fill(std::span<std::byte> bytes, std::uint64_t seed);

/// Whether `bytes` are exactly what fill() writes; if not, says where they first differ.
[[nodiscard]] testing::AssertionResult holds(std::span<const std::byte> bytes, std::uint64_t seed);

/// Whether every byte is `value`.
[[nodiscard]] testing::AssertionResult all_equal(std::span<const std::byte> bytes, std::byte value);

/// SplitMix64: small, seeded, and the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
  [[nodiscard]] std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// From 0 to `limit`, both included.
  [[nodiscard]] std::uint64_t up_to(std::uint64_t limit) noexcept {
    return limit == ~std::uint64_t{0} ? next() : next() % (limit + 1);
  }

 private:
  std::uint64_t state_;
};

}  // namespace verbatim::test
