// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked valgrind: Channel: used by two threads at once: thread ... is inside of the
// channel
//   over queue pair 0x ... on soft0, and thread ... comes in ... <use>
// EXPECT tsan: data race ... <use> ... Previous write of size ... <post>
// One thread waits, and another one posts to the same channel.
#include <unistd.h>

#include "misuse/reactor_misuse.hpp"
#include "verbatim/channel/unsafe.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(two_threads) {
  constexpr std::chrono::milliseconds kPause{2};
  Channels c;
  Signal posted;
  Signal over;
  std::thread other{[&, waiter = gettid()] {
    posted.wait();
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(kPause);  // wait: under Valgrind threads sleep for each other
      wait_until_asleep(waiter);            // In its wait.
      const auto dropped = unsafe::post(c.left, Receive{});  // <use>
    }
    over.set();
  }};
  auto receiving = unsafe::post(c.left, Receive{});  // <post>
  posted.set();
  while (!over.is_set()) static_cast<void>(receiving.ready_within(std::chrono::milliseconds{500}));
  other.join();
}

}  // namespace verbatim::test
