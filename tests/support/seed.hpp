// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Random tests that can be repeated: one seed per test, and how to replay it on failure.
///
///     TEST(Thing, HoldsForRandomInput) {
///       const std::uint64_t seed = test::seed();
///       SCOPED_TRACE(test::replay(seed));
///       std::mt19937_64 random{seed};
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace verbatim::test {

/// VERBATIM_TEST_SEED, or a different seed in every run.
inline std::uint64_t seed() {
  if (const char* const given = std::getenv("VERBATIM_TEST_SEED"))
    return std::strtoull(given, nullptr, 10);
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

inline std::string replay(std::uint64_t seed) {
  const auto* const running = testing::UnitTest::GetInstance()->current_test_info();
  return "replay: VERBATIM_TEST_SEED=" + std::to_string(seed) +
         " <this program> --gtest_filter=" + running->test_suite_name() + '.' + running->name();
}

}  // namespace verbatim::test
