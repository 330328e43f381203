// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/region_spans.hpp"

#include <gtest/gtest.h>

namespace verbatim::engine {
namespace {

TEST(RegionSpans, SideBySideDoNotOverlap) {
  RegionSpans spans;
  EXPECT_FALSE(spans.add(1000, 100));
  EXPECT_FALSE(spans.add(1100, 1));
  EXPECT_FALSE(spans.add(999, 1));
}

TEST(RegionSpans, NoticeMemoryThatTwoHave) {
  struct Range {
    std::uint64_t address;
    std::uint64_t length;
  };
  for (const Range each :
       {Range{1000, 100}, Range{1099, 1}, Range{900, 101}, Range{1010, 10}, Range{0, 5000}}) {
    RegionSpans spans;
    EXPECT_FALSE(spans.add(1000, 100));
    EXPECT_FALSE(spans.add(3000, 100));
    EXPECT_TRUE(spans.add(each.address, each.length)) << each.address;
  }
}

TEST(RegionSpans, ForgetWhatIsGone) {
  RegionSpans spans;
  EXPECT_FALSE(spans.add(1000, 100));
  spans.remove(1000);
  EXPECT_FALSE(spans.add(1050, 100));
}

TEST(RegionSpans, RememberAnOverlapForEver) {
  RegionSpans spans;
  EXPECT_FALSE(spans.add(1000, 100));
  EXPECT_TRUE(spans.add(1000, 100));
  spans.remove(1000);
  EXPECT_TRUE(spans.add(5000, 1));
}

}  // namespace
}  // namespace verbatim::engine
