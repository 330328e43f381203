// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Which device the suite runs on, and with which seed.
///
/// Set once by main() before the first test; read-only from then on.
#include <chrono>
#include <cstdint>
#include <string>

#include "verbatim/verbs/context.hpp"

namespace verbatim::test {

struct Settings {
  std::string program;  ///< How this program was started, for replay commands.
  std::string device;
  std::uint64_t seed = 0;  ///< Of all random data and all random choices.
};

void set_settings(Settings settings);
[[nodiscard]] const Settings& settings();

/// A new context of the device under test.
[[nodiscard]] Context open_context(ContextOptions options = {});
/// The capabilities of the device under test; queried once.
[[nodiscard]] const Capabilities& capabilities();

/// Release of the running kernel, as `uname -r` prints it.
[[nodiscard]] std::string kernel_release();

/// A seed that only depends on the suite's seed and on the name of the running test.
[[nodiscard]] std::uint64_t test_seed();

/// How many times as long as usual the tests with stress run (VERBATIM_STRESS, default 1).
[[nodiscard]] unsigned stress_factor();

/// The longest wait in the suite. Much more than any device needs, for slow emulated machines.
inline constexpr std::chrono::seconds kPatience{30};

}  // namespace verbatim::test
