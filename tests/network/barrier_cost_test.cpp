// SPDX-License-Identifier: MIT OR Apache-2.0
// What a barrier does besides its notices when it does not have to wait: nothing.
#include <gtest/gtest.h>

#include "network/barrier_world.hpp"
#include "support/require.hpp"
#include "unit/channel/counters.hpp"

namespace verbatim::test {
namespace {

TEST(BarrierCost, IsNoAllocationAndNoLookAtTheClock) {
  World world{2};
  Barrier first = world[0].barrier(everyone(2));
  Barrier second = world[1].barrier(everyone(2));
  const auto meet = [&] {
    ASSERT_TRUE(succeeds(first.arrive()));
    ASSERT_TRUE(second().has_value());
    ASSERT_TRUE(first.wait().has_value());
  };
  for (int i = 0; i < 40; ++i) meet();
  const long allocations = test::allocations();
  const long clock_reads = test::clock_reads();
  for (int i = 0; i < 200; ++i) meet();  // More than a queue has places.
  EXPECT_EQ(test::allocations(), allocations);
  EXPECT_EQ(test::clock_reads(), clock_reads);
}

}  // namespace
}  // namespace verbatim::test
