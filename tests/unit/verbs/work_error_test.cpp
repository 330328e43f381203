// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the line of a failed completion contains everything that the device reported.
#include "verbatim/verbs/work_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace verbatim {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(WorkError, LineTellsAll) {
  const WorkError error{.status = WorkStatus::retry_exceeded,
                        .vendor_code = 0x81,
                        .id = WrId{42},
                        .queue_pair = QpNumber{0x1a2b}};
  const std::string line = to_string(error);
  EXPECT_THAT(line, HasSubstr("transport retry counter exceeded (transport error; status 12, "
                              "vendor code 0x81, request 42, queue pair 0x001a2b): "));
  EXPECT_THAT(line, HasSubstr(hint_of(WorkStatus::retry_exceeded)));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

TEST(WorkError, LineOfTheLargestNumbersIsNotCut) {
  const WorkError error{.status = static_cast<WorkStatus>(255),
                        .vendor_code = ~0u,
                        .id = WrId{~std::uint64_t{0}},
                        .queue_pair = QpNumber{~0u}};
  EXPECT_EQ(to_string(error),
            "unknown status (unclassified; status 255, vendor code 0xffffffff, request "
            "18446744073709551615, queue pair 0xffffffff)");
}

}  // namespace
}  // namespace verbatim
