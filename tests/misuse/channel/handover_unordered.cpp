// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT tsan: data race ...   Read of size ... <use> ... Previous write of size ...
//   <post> ... 'channel receive'
// One thread waits for the message; another reads it, and nothing orders the two.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(handover_unordered) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  Signal arrived;
  std::thread poller{[&] {
    must(c.left.scope([&](Scope& scope) {
      const Operation receiving = scope.post(Receive{region.scatter(memory)});  // <post>
      c.deliver();
      must(scope.wait(receiving));
    }));
    arrived.set();
  }};
  arrived.wait();
  use(&memory[7]);  // <use>
  poller.join();
}

}  // namespace verbatim::test
