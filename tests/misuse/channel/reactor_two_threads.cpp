// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: Reactor: two threads at once
// A second thread drives a reactor that another one is in.
#include <thread>

#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(reactor_two_threads) {
  Reacting r;
  r.reactor.spawn(receive_one(r.left, r.memory()));
  Signal inside;
  r.reactor.submit([&] { inside.set(); });  // Called by run(), which stays inside.
  const std::jthread other{[&] {
    inside.wait();
    static_cast<void>(r.reactor.poll());
    r.reactor.stop();  // Nobody noticed.
  }};
  r.reactor.run();
}

}  // namespace verbatim::test
