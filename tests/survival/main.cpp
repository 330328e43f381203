// SPDX-License-Identifier: MIT OR Apache-2.0
// The software device when processes die, stop, fork, run out of memory, or write into its files.
//
//    survival_tests [GoogleTest's options]
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "support/device_under_test.hpp"
#include "survival/process.hpp"
#include "survival/role.hpp"

int main(int argc, char** argv) {
  using namespace verbatim::test;
  set_settings({argv[0], "soft0", 1});
  [[maybe_unused]] const Role roles[] = {
      {"mesh", &play_mesh},         {"holder", &play_holder}, {"idle", &play_idle},
      {"resident", &play_resident}, {"victim", &play_victim}, {"path", &play_path},
  };
  if (argc > 2 && std::string_view{argv[1]} == "--role") return play_role({argv + 2, argv + argc});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
