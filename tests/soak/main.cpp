// SPDX-License-Identifier: MIT OR Apache-2.0
// The software device for a long time, while processes come, go and are killed.
//
//    soak_tests [GoogleTest's options]
//
// VERBATIM_SOAK_S: for how many seconds clients come; 20 by default.
#include <gtest/gtest.h>

#include <string_view>

#include "soak/meeting.hpp"
#include "support/device_under_test.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

int main(int argc, char** argv) {
  using namespace verbatim::test;
  set_settings({argv[0], "soft0", 1});
  [[maybe_unused]] const Role roles[] = {{"client", &play_client}, {"server", &play_server}};
  if (argc > 2 && std::string_view{argv[1]} == "--role") return play_role({argv + 2, argv + argc});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
