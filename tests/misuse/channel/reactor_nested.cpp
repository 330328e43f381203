// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: Reactor: run() or poll() from inside one of its own coroutines
// A coroutine drives the reactor that runs it.
#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(reactor_nested) {
  Reacting r;
  const auto nested = [](Reactor& on) -> Task<void> {
    co_await on.sleep(std::chrono::milliseconds{1});  // wait: so that run() goes on with it
    static_cast<void>(on.poll());
  };
  r.reactor.spawn(nested(r.reactor));
  r.reactor.run();
}

}  // namespace verbatim::test
