// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where a device is known not to do what the specification promises.
///
/// A listed test still runs there, and must still fail, with the symptom that the table gives;
/// it is then reported as skipped, with the reason. One that passes, or fails otherwise, fails
/// the run: the table is stale. Every device runs the same list of tests.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>

namespace verbatim::test {

/// The patterns are those of a shell (fnmatch).
struct Deviation {
  const char* test;     ///< Pattern of "Suite.Name".
  const char* device;   ///< Pattern of the device's name.
  const char* kernel;   ///< Pattern of the kernel's release.
  const char* symptom;  ///< Part of the failure's text.
  const char* reason;
};

[[nodiscard]] std::span<const Deviation> known_deviations();

/// Applies the table while the tests of this device run.
[[nodiscard]] std::unique_ptr<testing::TestEventListener> make_deviation_listener(
    std::string device, std::string kernel);

/// Rows whose test does not exist, one per line; empty if the table is sound.
[[nodiscard]] std::string rows_without_test();

}  // namespace verbatim::test
