// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a rank lets others know of the barrier that it waits at, or that has failed for it.
///
/// 20 bytes and four for each rank that it waits for or that failed it, little-endian: version:8
/// stand:8 tag:16 generation:32 since:64 (nanoseconds of the system's clock) count:32 ranks.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/network/identity.hpp"

namespace verbatim::detail {

struct BarrierReport {
  /// So many fit into an answer.
  static constexpr std::uint32_t kMostAwaited = 32;

  enum class Stand : std::uint8_t { elsewhere, waiting, failed };

  Stand stand = Stand::elsewhere;
  std::uint16_t tag = 0;
  std::uint32_t generation = 0;
  std::uint64_t since = 0;
  /// The first of those that it waits for; of a failed one the rank that left before it came.
  std::vector<Rank> awaited{};

  [[nodiscard]] bool is_waiting() const noexcept { return stand == Stand::waiting; }
  /// Of a barrier with this tag, in this generation.
  [[nodiscard]] bool is_of(std::uint16_t wanted_tag, std::uint32_t wanted_generation) const {
    return tag == wanted_tag && generation == wanted_generation;
  }

  friend bool operator==(const BarrierReport&, const BarrierReport&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const BarrierReport& report);
[[nodiscard]] Result<BarrierReport> decode_report(std::span<const std::byte> bytes);

}  // namespace verbatim::detail
