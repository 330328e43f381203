// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a rank reports about the barrier that it waits at, or that has failed.
///
/// 20 bytes, plus four for each rank that it waits for or that made it fail, little-endian:
/// version:8 stand:8 tag:16 generation:32 since:64 (nanoseconds of the system's clock) count:32
/// ranks.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/network/identity.hpp"

namespace verbatim::detail {

struct BarrierReport {
  /// How many fit into an answer.
  static constexpr std::uint32_t kMostAwaited = 32;

  enum class Stand : std::uint8_t { elsewhere, waiting, failed };

  Stand stand = Stand::elsewhere;
  std::uint16_t tag = 0;
  std::uint32_t generation = 0;
  std::uint64_t since = 0;
  /// The first of the ranks that it waits for. If failed: the rank that left too early.
  std::vector<Rank> awaited{};

  [[nodiscard]] bool is_waiting() const noexcept { return stand == Stand::waiting; }
  /// Whether this is about a barrier with this tag, in this generation.
  [[nodiscard]] bool is_of(std::uint16_t wanted_tag, std::uint32_t wanted_generation) const {
    return tag == wanted_tag && generation == wanted_generation;
  }

  friend bool operator==(const BarrierReport&, const BarrierReport&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const BarrierReport& report);
[[nodiscard]] Result<BarrierReport> decode_report(std::span<const std::byte> bytes);

}  // namespace verbatim::detail
