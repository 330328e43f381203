// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/dma_checksum.hpp"

#if VERBATIM_DMA_MODELLED

#include <cstring>

namespace verbatim::dma::detail {
namespace {

/// Eight bytes at any address, of any type.
struct [[gnu::packed, gnu::may_alias]] Word {
  std::uint64_t value;
};
constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;  // Odd, so that multiplying is reversible.

/// A bijection in `word` and in `state`: if either changes, so does the result. Always inline,
/// because debug builds compute checksums as well.
[[gnu::always_inline]] inline std::uint64_t mix(std::uint64_t state, std::uint64_t word) noexcept {
  const std::uint64_t product = (state ^ word) * kFactor;
  return product << 29 | product >> 35;
}

}  // namespace

std::uint64_t checksum(const Range& range) noexcept {
  // Four at a time: independent multiplications hide each other's latency.
  std::uint64_t a = 1;
  std::uint64_t b = 2;
  std::uint64_t c = 3;
  std::uint64_t d = 4;
  const auto* word = reinterpret_cast<const Word*>(range.data);
  std::size_t left = range.size;
  for (; left >= 4 * sizeof(Word); left -= 4 * sizeof(Word), word += 4) {
    a = mix(a, word[0].value);
    b = mix(b, word[1].value);
    c = mix(c, word[2].value);
    d = mix(d, word[3].value);
  }
  std::uint64_t sum = range.size;
  for (const std::uint64_t each : {a, b, c, d}) sum = mix(sum, each);
  for (; left >= sizeof(Word); left -= sizeof(Word), ++word) sum = mix(sum, word->value);
  if (left == 0) return sum;
  std::uint64_t last = 0;
  std::memcpy(&last, word, left);
  return mix(sum, last);
}

}  // namespace verbatim::dma::detail

#endif
