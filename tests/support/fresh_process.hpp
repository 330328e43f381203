// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Runs a part of a test in a separate process, which has not loaded libibverbs yet.
///
/// The library loads libibverbs once and keeps it. So a test that depends on *which* one is loaded
/// needs a new process: this program again, as GoogleTest runs death tests.
#include <gtest/gtest.h>

#include <cstdlib>

namespace verbatim::test {

/// `body` may use EXPECT; its failures fail the calling test. `libibverbs` is a file.
template <class Body>
void in_fresh_process(const char* libibverbs, Body body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("VERBATIM_LIBIBVERBS", libibverbs, 1);
        // Only the devices of libibverbs count here. A test of the software device shows it again.
        setenv("VERBATIM_SOFT", "0", 1);
        body();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace verbatim::test
