// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a value is computed once in a process, and a forked child does not wait for its parent's
//       threads.
// Method: many threads at once; a fork while another thread is computing.
#include "base/once.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "support/forked_child.hpp"

namespace verbatim::test {
namespace {

TEST(Once, IsComputedOnceWhateverTheNumberOfThreads) {
  detail::Once<int> once;
  std::atomic<int> computed{0};
  std::latch begin{4};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      begin.arrive_and_wait();
      EXPECT_EQ(once([&] { return ++computed; }), 1);
    });
  threads.clear();
  EXPECT_EQ(computed, 1);
}

TEST(Once, ForkedChildDoesNotWaitForAThreadOfItsParent) {
  detail::Once<int> once;
  std::latch inside{1};
  std::latch forked{1};
  std::jthread slow{[&] {
    EXPECT_EQ(once([&] {
                inside.count_down();
                forked.wait();
                return 1;
              }),
              1);
  }};
  inside.wait();
  in_forked_child([&] {
    alarm(20);  // Otherwise a child that waits would hang this test.
    EXPECT_EQ(once([] { return 2; }), 2);
  });
  forked.count_down();
  slow.join();
  EXPECT_EQ(once([] { return 3; }), 1);
}

}  // namespace
}  // namespace verbatim::test
