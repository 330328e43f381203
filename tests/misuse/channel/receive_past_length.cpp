// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT msan: receive_past_length
// EXPECT valgrind: depends on uninitialised value ... <use>
// What lies behind the bytes that were received is read.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_past_length) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  must(c.left.scope([&](Scope& scope) {
    const Operation receiving = scope.post(Receive{region.scatter(memory)});
    c.deliver(64);
    must(scope.wait(receiving));
  }));
  use(&memory[63]);
  use(&memory[64]);  // <use>
}

}  // namespace verbatim::test
