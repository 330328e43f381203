// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no single change of a send buffer escapes the checksum.
// Method: every bit of buffers of every length and alignment; death tests through the model are in
//         dma_model_test.cpp.
#include "base/dma_checksum.hpp"

#include <gtest/gtest.h>

#if VERBATIM_DMA_MODELLED

#include <array>
#include <random>
#include <vector>

#include "support/seed.hpp"

namespace verbatim::dma::detail {
namespace {

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

TEST(DmaChecksum, SeesEveryFlippedBit) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  for (std::size_t size = 1; size < 100; ++size) {
    auto bytes = random_bytes(random, size);
    const std::uint64_t before = checksum({bytes.data(), size});
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
      ASSERT_NE(checksum({bytes.data(), size}), before) << "bit " << bit << " of " << size;
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
    ASSERT_EQ(checksum({bytes.data(), size}), before);
  }
}

TEST(DmaChecksum, SeesSwappedWords) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  auto words = std::array<std::uint64_t, 16>{};
  for (auto& each : words) each = random();
  const Range range{reinterpret_cast<const std::byte*>(words.data()), sizeof words};
  const std::uint64_t before = checksum(range);
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::swap(words[0], words[i]);
    EXPECT_NE(checksum(range), before) << "word 0 against " << i;
    std::swap(words[0], words[i]);
  }
}

TEST(DmaChecksum, DependsOnTheLengthAndNotOnThePlace) {
  std::array<std::byte, 200> bytes{};
  EXPECT_NE(checksum({bytes.data(), 10}), checksum({bytes.data(), 11}));
  EXPECT_NE(checksum({bytes.data(), 0}), checksum({bytes.data(), 1}));
  for (std::size_t at = 1; at < 8; ++at)
    EXPECT_EQ(checksum({bytes.data(), 100}), checksum({bytes.data() + at, 100}));
}

/// The bytes around the range do not matter: they belong to other threads.
TEST(DmaChecksum, ReadsTheRangeOnly) {
  for (std::size_t size = 1; size < 70; ++size) {
    std::vector<std::byte> bytes(size + 2);
    const std::uint64_t before = checksum({bytes.data() + 1, size});
    bytes.front() = bytes.back() = std::byte{0xff};
    ASSERT_EQ(checksum({bytes.data() + 1, size}), before) << size;
  }
}

}  // namespace
}  // namespace verbatim::dma::detail

#endif
