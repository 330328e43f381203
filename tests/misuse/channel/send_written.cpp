// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked valgrind: misuse: send buffer was modified while the device was ... <post>
// EXPECT tsan: data race ...   Write of size ... <use> ... Previous read of size ...
//   <post> ... 'channel send'
// Borrowed memory is written while the device sends it.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(send_written) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  Pending accepting = c.accept();
  must(c.left.scope([&](Scope& scope) {
    const Operation sending = scope.post(Send{region.gather(memory)});  // <post>
    scribble(&memory[7]);                                               // <use>
    must(scope.wait(sending));
  }));
  must(accepting.wait().result);
}

}  // namespace verbatim::test
