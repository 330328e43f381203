// SPDX-License-Identifier: MIT OR Apache-2.0
// The unit tests of the software device, each process in a separate directory.
#include <gtest/gtest.h>

#include <string_view>

#include "support/device_under_test.hpp"
#include "unit/soft/program.hpp"
#include "unit/soft/soft_directory.hpp"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view{argv[1]} == verbatim::test::kPlayProgram)
    return verbatim::test::play_program();
  testing::InitGoogleTest(&argc, argv);
  verbatim::test::set_settings({argv[0], "soft0", 1});
  const verbatim::test::TemporarySoftDirectory directory;
  return RUN_ALL_TESTS();
}
