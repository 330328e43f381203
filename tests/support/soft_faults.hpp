// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Faults of the software device, for as long as an object lives. Other devices have none: a
/// test that needs them checks on_soft_device() first.
#include <cstdlib>
#include <string_view>
#include <utility>

#include "support/device_under_test.hpp"
#include "verbatim/soft/soft_device.hpp"

namespace verbatim::test {

[[nodiscard]] inline bool on_soft_device() { return settings().device.starts_with("soft"); }

/// The behaviour that the environment asks for. It is restored after a plan.
[[nodiscard]] inline soft::Behaviour soft_behaviour(std::uint64_t seed = 1) {
  const char* const mode = std::getenv("VERBATIM_SOFT_MODE");
  const bool deferred = mode != nullptr && std::string_view{mode} == "deferred";
  return {.mode = deferred ? soft::Mode::deferred : soft::Mode::immediate, .seed = seed};
}

/// Sets the behaviour of the software device, and restores it.
struct Faults {
  explicit Faults(soft::FaultPlan plan, std::uint64_t seed = 1) {
    soft::Behaviour with = soft_behaviour(seed);
    with.faults = std::move(plan);
    if (on_soft_device()) soft::set_behaviour(std::move(with));
  }
  ~Faults() {
    if (on_soft_device()) soft::set_behaviour(soft_behaviour());
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
};

}  // namespace verbatim::test
