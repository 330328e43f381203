// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Memory for transfers, between guard bytes that must not change.
///
/// `ScatteredMemory` has several pieces, for the local side of a request; `ExposedMemory` is one
/// piece that the peer can reach. Both check their guards whenever they check their content.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim::test {

class ScatteredMemory {
 public:
  /// `bytes` in `pieces` pieces of random lengths, some possibly empty, none aligned.
  ScatteredMemory(const ProtectionDomain& domain, std::size_t bytes, std::size_t pieces,
                  std::uint64_t seed);

  /// Fills the pieces, one after another, with the pattern of `seed`.
  void fill(std::uint64_t seed);
  /// Whether the pieces, one after another, hold the pattern, and the guards are untouched.
  [[nodiscard]] testing::AssertionResult holds(std::uint64_t seed) const;
  /// The pieces, one after another.
  [[nodiscard]] std::vector<std::byte> content() const;

  [[nodiscard]] std::span<const GatherElement> gather() const { return gather_; }
  [[nodiscard]] std::span<const ScatterElement> scatter() const { return scatter_; }

 private:
  struct Piece {
    std::size_t offset;
    std::size_t size;
  };
  std::vector<Piece> pieces_;
  Buffer buffer_;
  std::vector<GatherElement> gather_;
  std::vector<ScatterElement> scatter_;
};

class ExposedMemory {
 public:
  ExposedMemory(const ProtectionDomain& domain, std::size_t bytes, AccessFlags remote);

  void fill(std::uint64_t seed);
  /// Call it only when the peer is known to be done.
  [[nodiscard]] testing::AssertionResult holds(std::uint64_t seed);
  [[nodiscard]] std::span<std::byte> bytes();
  [[nodiscard]] RemoteMemoryRegion remote() const;
  [[nodiscard]] const MemoryRegion& region() const { return region_.region(); }

 private:
  std::size_t size_;
  SharedRegion region_;
};

}  // namespace verbatim::test
