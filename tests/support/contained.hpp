// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Runs a part of a test in this program, executed again, so that a crash or a hang ends only
/// that part.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "support/device_under_test.hpp"

namespace verbatim::test {

/// How many seconds a contained part may take before SIGALRM ends it; with VERBATIM_STRESS, so many
/// times as long. Less than a suite allows a whole test.
inline constexpr unsigned kContainedSeconds = 200;

/// Prints the failures so far, for the process that waits for this one.
inline void print_failures() {
  const testing::TestResult& result =
      *testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.failed()) std::cerr << part.line_number() << ": " << part.message() << '\n';
  }
}

/// `body` may use EXPECT, and may throw; either fails the calling test.
template <class Body>
void contained(Body body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        alarm(kContainedSeconds * stress_factor());
        bool threw = false;
        try {
          body();
        } catch (const std::exception& failure) {
          std::cerr << failure.what() << '\n';
          threw = true;
        }
        print_failures();
        std::cout << std::flush;
        std::_Exit(threw || testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace verbatim::test
