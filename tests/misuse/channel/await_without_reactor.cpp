// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: co_await: the channel is on no Reactor
// A coroutine waits on a channel that no reactor drives: nobody would ever wake it.
#include "misuse/reactor_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(await_without_reactor) {
  Channels c;
  auto reactor = must(Reactor::create(c.domain));
  reactor.spawn(receive_one(c.left, must(c.domain.allocate(Channels::kSize))));
}

}  // namespace verbatim::test
