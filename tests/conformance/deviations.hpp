// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The cases in which a device is known not to do what the specification promises.
///
/// A listed test still runs there, and must still fail, with the symptom in the table. It is then
/// reported as skipped, with the reason. If it passes, or fails otherwise, the run fails, because
/// the table is stale. Every device runs the same list of tests.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>

namespace verbatim::test {

/// The patterns are shell patterns (fnmatch).
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

/// Rows whose test does not exist, one per line; empty if the table is valid.
[[nodiscard]] std::string rows_without_test();

}  // namespace verbatim::test
