// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked valgrind: Channel: used by two threads at once: thread ... is inside of the
// channel
//   over queue pair 0x ... on soft0, and thread ... comes in ... <use>
// EXPECT tsan: data race ... <use> ... Previous write of size ... <post>
// One thread waits, and another one posts to the same channel.
#include "misuse/channel_misuse.hpp"
#include "verbatim/channel/unsafe.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(two_threads) {
  constexpr std::chrono::milliseconds kPause{2};
  Channels c;
  Signal posted;
  Signal over;
  std::thread other{[&] {
    posted.wait();
    for (int i = 0; i < 100; ++i) {
      {
        const auto dropped = unsafe::post(c.left, Receive{});  // <use>
      }
      std::this_thread::sleep_for(kPause);  // wait: the first thread has to get into its wait
    }
    over.set();
  }};
  auto receiving = unsafe::post(c.left, Receive{});  // <post>
  posted.set();
  static_cast<void>(receiving.ready_within(std::chrono::milliseconds{500}));
  over.wait();
  other.join();
}

}  // namespace verbatim::test
