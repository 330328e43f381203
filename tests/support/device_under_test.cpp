// SPDX-License-Identifier: MIT OR Apache-2.0
#include "support/device_under_test.hpp"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <utility>

#include "support/require.hpp"
#include "verbatim/verbs/device.hpp"

namespace verbatim::test {

namespace {

Settings& stored_settings() {
  static Settings settings;
  return settings;
}

}  // namespace

void set_settings(Settings settings) { stored_settings() = std::move(settings); }

const Settings& settings() { return stored_settings(); }

Context open_context(ContextOptions options) {
  return require(open_device({.name = settings().device, .context = std::move(options)}));
}

const Capabilities& capabilities() {
  static const Capabilities kCapabilities = open_context().capabilities();
  return kCapabilities;
}

std::string kernel_release() {
  utsname names{};
  return uname(&names) == 0 ? names.release : "unknown";
}

std::uint64_t test_seed() {
  // FNV-1a: unlike std::hash, the same with every standard library.
  std::uint64_t hash = 0xcbf29ce484222325 ^ settings().seed;
  const auto mix = [&hash](const char* text) {
    for (; *text != '\0'; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
  };
  if (const auto* test = testing::UnitTest::GetInstance()->current_test_info()) {
    mix(test->test_suite_name());
    mix(test->name());
  }
  return hash;
}

unsigned stress_factor() {
  const char* const value = std::getenv("VERBATIM_STRESS");
  const unsigned long factor = value == nullptr ? 1 : std::strtoul(value, nullptr, 10);
  return factor == 0 ? 1 : static_cast<unsigned>(factor);
}

}  // namespace verbatim::test
