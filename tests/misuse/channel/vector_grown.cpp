// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT asan: use-after-poison ... <use> ... that the device writes, posted at ... <post>:
//   ... <post>
// EXPECT tsan: data race ... <use> ... Previous write of size ... <post> ... 'channel receive'
// EXPECT valgrind: Invalid read of size ... <use>
// The vector that a receive goes into gets another element, and moves.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(vector_grown) {
  Channels c;
  Bytes memory(Channels::kSize);
  memory.shrink_to_fit();
  const MemoryRegion region = must(c.domain.register_local(memory));
  must(c.left.scope([&](Scope& scope) {
    const Operation receiving = scope.post(Receive{region.scatter(memory)});  // <post>
    memory.emplace_back();                                                    // <use>
    c.deliver(0);
    must(scope.wait(receiving));
  }));
}

}  // namespace verbatim::test
