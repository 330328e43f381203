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
  // A thread of the device may do both meanwhile, now and then. A barrier would in every try.
  long allocations = 1;
  long clock_reads = 1;
  for (int tries = 0; tries < 20 && allocations + clock_reads > 0; ++tries) {
    const long allocations_before = test::allocations();
    const long clock_reads_before = test::clock_reads();
    for (int i = 0; i < 200; ++i) meet();  // More than a queue has places.
    allocations = test::allocations() - allocations_before;
    clock_reads = test::clock_reads() - clock_reads_before;
  }
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(clock_reads, 0);
}

}  // namespace
}  // namespace verbatim::test
