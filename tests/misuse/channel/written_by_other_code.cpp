// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked valgrind: misuse: send buffer was modified while the device was ... <post>
// Code that no compiler instrumented writes to memory in flight.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(written_by_other_code) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  Pending accepting = c.accept();
  must(c.left.scope([&](Scope& scope) {
    const Operation sending = scope.post(Send{region.gather(memory)});  // <post>
    device_stores(&memory[7], 1);
    must(scope.wait(sending));
  }));
  must(accepting.wait().result);
}

}  // namespace verbatim::test
