// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a reader that sees the last word of a copy sees all of it.
// Method: one thread copies blocks full of a running number; another polls the last word of the
//         block, and then checks all the others. Up to 100,000 rounds of each size.
#include "soft/memory/copy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "soft/shared/spin.hpp"
#include "support/pattern.hpp"

namespace verbatim::engine {
namespace {

TEST(CopyBytes, CopiesEveryLengthAndNothingElse) {
  std::array<std::byte, 300> from{};
  test::fill(from, 1);
  for (std::size_t size = 0; size <= 200; ++size) {
    for (const auto copy : {&copy_bytes, &copy_last_word_last}) {
      std::array<std::byte, 300> to{};
      copy(to.data() + 3, from.data() + 1, size);
      EXPECT_EQ(std::memcmp(to.data() + 3, from.data() + 1, size), 0) << size;
      EXPECT_TRUE(test::all_equal(std::span{to}.first(3), std::byte{})) << size;
      EXPECT_TRUE(test::all_equal(std::span{to}.subspan(3 + size), std::byte{})) << size;
    }
  }
}

class CopyOrder : public testing::TestWithParam<std::size_t> {};

TEST_P(CopyOrder, LastWordIsSeenLast) {
  const std::size_t words = GetParam() / sizeof(std::uint64_t);
  constexpr std::uint64_t kRounds = 100'000;
  std::vector<std::uint64_t> to(words);
  std::atomic<std::uint64_t> seen{0};
  const std::jthread writer{[&] {
    std::vector<std::uint64_t> from(words);
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      from.assign(words, round);
      copy_last_word_last(reinterpret_cast<std::byte*>(to.data()),
                          reinterpret_cast<const std::byte*>(from.data()), GetParam());
      for (Backoff backoff; seen.load(std::memory_order_acquire) < round;) backoff.wait();
    }
  }};
  std::uint64_t stale = 0;
  // Hand-offs are slow where the threads share a processor.
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  for (std::uint64_t round = 1; round <= kRounds && std::chrono::steady_clock::now() < enough;
       ++round) {
    const std::atomic_ref last{to.back()};
    for (Backoff backoff; last.load(std::memory_order_acquire) != round;) backoff.wait();
    for (const std::uint64_t word : to) stale += word != round ? 1 : 0;
    seen.store(round, std::memory_order_release);
  }
  seen.store(kRounds, std::memory_order_release);  // The writer ends.
  EXPECT_EQ(stale, 0u);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CopyOrder, testing::Values(256, 512, 1024, 4096),
                         testing::PrintToStringParamName());

TEST(CopyAtomics, ReturnTheOldValue) {
  alignas(8) std::array<std::byte, 8> word{};
  const auto value = [&] {
    std::uint64_t held = 0;
    std::memcpy(&held, word.data(), sizeof held);
    return held;
  };
  EXPECT_EQ(atomic_fetch_add(word.data(), 5), 0u);
  EXPECT_EQ(atomic_fetch_add(word.data(), ~std::uint64_t{0}), 5u);
  EXPECT_EQ(atomic_compare_swap(word.data(), 4, 9), 4u);
  EXPECT_EQ(value(), 9u);
  EXPECT_EQ(atomic_compare_swap(word.data(), 4, 1), 9u);
  EXPECT_EQ(value(), 9u);
}

TEST(CopyAtomics, LoseNoIncrementBetweenThreads) {
  constexpr std::uint64_t kEach = 20'000;
  alignas(8) std::array<std::byte, 8> word{};
  const auto add = [&] {
    for (std::uint64_t i = 0; i < kEach; ++i) static_cast<void>(atomic_fetch_add(word.data(), 1));
  };
  {
    const std::jthread one{add};
    const std::jthread two{add};
  }
  EXPECT_EQ(atomic_fetch_add(word.data(), 0), 2 * kEach);
}

}  // namespace
}  // namespace verbatim::engine
