// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: ... cancelled
// Another thread cancels a channel while its reactor sleeps: it wakes up, and whoever waits on the
// channel gets his buffer and `cancelled`.
#include <unistd.h>

#include <thread>

#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(cancelled_asleep) {
  Reacting r;
  r.reactor.spawn(receive_one(r.left, r.memory()));
  const std::jthread other{[canceller = r.left.canceller(), sleeper = gettid()] {
    wait_until_asleep(sleeper);
    canceller.cancel();
  }};
  r.reactor.run();
}

}  // namespace verbatim::test
