// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The word that one rank writes into its slot at another: how far it has come.
///
///     generation:8  tag:16  count:40
///
/// `count` numbers the notices of one ordered pair, over all barriers, and never decreases. Nothing
/// is ever reset, and a notice that overtakes the one a rank waits for is just as good. `tag`
/// identifies the ranks and the algorithm of the barrier. It is compared when the counts are equal,
/// so that barriers of different ranks can take turns. What an earlier membership left behind has
/// another generation, and matches nothing.
///
/// Pure: tests and the model in tests/network call it without a device.
#include <bit>
#include <cstdint>
#include <span>

#include "verbatim/network/barrier_schedule.hpp"

namespace verbatim::detail {

enum class Seen : std::uint8_t { not_yet, arrived, mismatch };

inline constexpr unsigned kCountBits = 40;
inline constexpr unsigned kGenerationShift = 56;
/// How many notices the other may be ahead of the one we wait for. It notifies us once in a
/// barrier, and then in the next one that we share, which it cannot leave before we have entered
/// it. Anything beyond that is not a notice: the InfiniBand specification does not promise that
/// eight bytes arrive at once.
inline constexpr std::uint64_t kMostAhead = 1;

[[nodiscard]] constexpr std::uint64_t make_flag(std::uint32_t generation, std::uint16_t tag,
                                                std::uint64_t count) noexcept {
  return std::uint64_t{generation & 0xff} << kGenerationShift | std::uint64_t{tag} << kCountBits |
         (count & ((std::uint64_t{1} << kCountBits) - 1));
}

/// As stored in memory: little-endian on any host.
[[nodiscard]] constexpr std::uint64_t in_memory(std::uint64_t flag) noexcept {
  return std::endian::native == std::endian::little ? flag : std::byteswap(flag);
}

/// The number of notices in a flag of `generation`; 0 if it is of another.
[[nodiscard]] constexpr std::uint64_t count_of(std::uint64_t flag,
                                               std::uint32_t generation) noexcept {
  if (flag >> kGenerationShift != (generation & 0xff)) return 0;
  return flag & ((std::uint64_t{1} << kCountBits) - 1);
}

/// What the word in the slot means for a rank that wants `wanted`. Safe when the count wraps
/// around.
[[nodiscard]] constexpr Seen compare(std::uint64_t got, std::uint64_t wanted) noexcept {
  if (got == wanted) return Seen::arrived;
  if (got >> kGenerationShift != wanted >> kGenerationShift) return Seen::not_yet;
  const std::uint64_t ahead = (got - wanted) & ((std::uint64_t{1} << kCountBits) - 1);
  if (ahead == 0) return Seen::mismatch;
  return ahead <= kMostAhead ? Seen::arrived : Seen::not_yet;  // Behind is very far ahead.
}

/// From the ranks in their order, and the algorithm.
[[nodiscard]] constexpr std::uint16_t make_tag(std::span<const Rank> ranks,
                                               BarrierAlgorithm algorithm) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a.
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  add(static_cast<std::uint64_t>(algorithm));
  for (const Rank rank : ranks) add(rank);
  return static_cast<std::uint16_t>(hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48);
}

}  // namespace verbatim::detail
