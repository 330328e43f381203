// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an unknown value is an error that names the variable and its possible values.
// Method: each variable with valid and invalid values.
#include "soft/shared/settings.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace verbatim::engine {
namespace {

struct Row {
  const char* variable;
  const char* good;
  const char* bad;
};

TEST(Settings, UnknownValuesAreNamed) {
  for (const auto& [variable, good, bad] :
       {Row{"VERBATIM_SOFT", "1", "no"}, Row{"VERBATIM_SOFT_MODE", "immediate", "defered"},
        Row{"VERBATIM_SOFT_MEMORY", "process", "fast"}, Row{"VERBATIM_SOFT_LINK", "eth", "roce"},
        Row{"VERBATIM_SOFT_PTRACE", "any", "all"}, Row{"VERBATIM_SOFT_DEVICES", "8", "9"},
        Row{"VERBATIM_SOFT_DEVICES", "0", "two"}, Row{"VERBATIM_SOFT_SEED", "42", "4x"}}) {
    setenv(variable, good, 1);
    EXPECT_TRUE(check_settings()) << variable;
    setenv(variable, "", 1);
    EXPECT_TRUE(check_settings()) << variable << " is empty";
    setenv(variable, bad, 1);
    const auto checked = check_settings();
    unsetenv(variable);
    ASSERT_FALSE(checked) << variable;
    const std::string text = to_string(checked.error());
    EXPECT_EQ(checked.error(), Errc::invalid_argument);
    EXPECT_TRUE(text.starts_with(std::string{variable} + ": ")) << text;
    EXPECT_TRUE(text.contains(bad) && text.contains("must be")) << text;
    EXPECT_FALSE(text.ends_with(" 0")) << text;
  }
}

TEST(Settings, SayHowManyDevicesThereAre) {
  EXPECT_EQ(wanted_devices(), 1u);
  setenv("VERBATIM_SOFT_DEVICES", "3", 1);
  EXPECT_EQ(wanted_devices(), 3u);
  setenv("VERBATIM_SOFT_DEVICES", "many", 1);
  EXPECT_EQ(wanted_devices(), 1u) << "one is there to be opened, and to say what is wrong";
  unsetenv("VERBATIM_SOFT_DEVICES");
}

}  // namespace
}  // namespace verbatim::engine
