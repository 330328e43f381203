// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/dma_checksum.hpp"

#if VERBATIM_DMA_MODELLED

#include <array>
#include <bit>
#include <cstring>

namespace verbatim::dma::detail {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLanes = 4;  // Independent multiplications hide each other's latency.

/// One to one in `word` and in `state`: a change of either changes the result.
std::uint64_t mix(std::uint64_t state, std::uint64_t word) noexcept {
  return std::rotl((state ^ word) * 0x9e3779b97f4a7c15u, 29);
}

std::uint64_t load(const std::byte* from, std::size_t size = kWord) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, size);
  return word;
}

}  // namespace

std::uint64_t checksum(const Range& range) noexcept {
  std::array<std::uint64_t, kLanes> lanes{1, 2, 3, 4};
  const std::byte* at = range.data;
  std::size_t left = range.size;
  for (; left >= kLanes * kWord; left -= kLanes * kWord)
    for (std::uint64_t& lane : lanes) {
      lane = mix(lane, load(at));
      at += kWord;
    }
  std::uint64_t sum = range.size;
  for (const std::uint64_t lane : lanes) sum = mix(sum, lane);
  for (; left >= kWord; left -= kWord, at += kWord) sum = mix(sum, load(at));
  return left == 0 ? sum : mix(sum, load(at, left));
}

}  // namespace verbatim::dma::detail

#endif
