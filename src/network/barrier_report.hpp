// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a rank lets others know of the barrier that it waits at, for their time-outs.
///
/// 20 bytes and four for each rank that it waits for, little-endian: version:8 is_waiting:8 tag:16
/// generation:32 since:64 (nanoseconds of the system's clock) count:32 ranks.
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

  bool is_waiting = false;
  std::uint16_t tag = 0;
  std::uint32_t generation = 0;
  std::uint64_t since = 0;
  std::vector<Rank> awaited{};  ///< The first of those that it waits for.

  friend bool operator==(const BarrierReport&, const BarrierReport&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const BarrierReport& report);
[[nodiscard]] Result<BarrierReport> decode_report(std::span<const std::byte> bytes);

}  // namespace verbatim::detail
