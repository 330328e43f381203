// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: close: channel closed
// A channel is destroyed while a coroutine waits on it. The coroutine gets its buffer and `closed`.
#include <optional>

#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(channel_destroyed_awaited) {
  Reacting r;
  std::optional doomed{r.connect()};
  r.reactor.spawn(receive_one(doomed->first, r.memory()));
  doomed.reset();
  r.reactor.run();
}

}  // namespace verbatim::test
