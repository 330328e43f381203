// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT asan: use-after-poison ... <use> ... that the device writes, posted at ... <post>:
//   ... <post>
// EXPECT tsan: data race ...   Read of size ... <use> ... Previous write of size ...
//   <post> ... 'channel receive'
// EXPECT msan: receive_read
// EXPECT valgrind: Invalid read of size ... <use>
// Borrowed memory is read while a receive has it.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(receive_read) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  must(c.left.scope([&](Scope& scope) {
    const Operation receiving = scope.post(Receive{region.scatter(memory)});  // <post>
    use(&memory[7]);                                                          // <use>
    c.deliver();
    must(scope.wait(receiving));
  }));
}

}  // namespace verbatim::test
