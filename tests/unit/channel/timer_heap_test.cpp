// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: timers become due in the order of their times, however often they were set, removed or
//       destroyed.
// Method: random operations, compared with a sorted list that does the same slowly.
#include "channel/timer_heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "support/seed.hpp"

namespace verbatim::detail {
namespace {

void nothing(Timer&) noexcept {}

TEST(TimerHeap, TellsTheFirst) {
  TimerHeap heap;
  EXPECT_EQ(heap.first(), kNever);
  Timer late{nothing};
  Timer early{nothing};
  heap.set(late, 20);
  heap.set(early, 10);
  EXPECT_EQ(heap.first(), 10u);
  EXPECT_EQ(heap.take_due(9), nullptr);
  EXPECT_EQ(heap.take_due(10), &early);
  EXPECT_EQ(heap.take_due(10), nullptr);
  EXPECT_EQ(heap.take_due(50), &late);
  EXPECT_EQ(heap.first(), kNever);
}

TEST(TimerHeap, ForgetsOneThatIsDestroyedAndIsForgotten) {
  Timer outlives{nothing};
  {
    TimerHeap heap;
    heap.set(outlives, 5);
    {
      Timer dies{nothing};
      heap.set(dies, 1);
    }
    EXPECT_EQ(heap.first(), 5u);
  }
  EXPECT_EQ(outlives.heap, nullptr);
}

TEST(TimerHeap, KeepsTheOrderOfRandomTimes) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(test::replay(seed));
  std::mt19937_64 random{seed};
  TimerHeap heap;
  std::vector<std::unique_ptr<Timer>> timers(50);
  for (int step = 0; step < 5000; ++step) {
    auto& timer = timers[random() % timers.size()];
    if (!timer) timer = std::make_unique<Timer>(nothing);
    switch (random() % 4) {
      case 0: timer.reset(); break;
      case 1: heap.remove(*timer); break;
      default: heap.set(*timer, random() % 1000); break;
    }
    Nanoseconds first = kNever;
    for (const auto& each : timers)
      if (each) first = std::min(first, each->when);
    ASSERT_EQ(heap.first(), first) << "step " << step;
    if (random() % 8 == 0) {
      const Timer* const due = heap.take_due(first);
      ASSERT_EQ(due == nullptr, first == kNever);
    }
  }
  Nanoseconds before = 0;
  while (heap.first() != kNever) {
    const Nanoseconds now = heap.first();
    EXPECT_GE(now, before);
    before = now;
    ASSERT_NE(heap.take_due(now), nullptr);
  }
}

}  // namespace
}  // namespace verbatim::detail
