// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked valgrind: misuse: send buffer was modified while the device was ... <post>
// EXPECT tsan: data race ...   Write of size ... <use> ... Previous read of size ...
//   <post> ... 'channel send'
// Borrowed memory of a request inside a batch is written before the batch is over.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(batch_written) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  Pending first = c.accept();
  Pending second = c.accept();
  must(c.left.scope([&](Scope& scope) {
    const std::span all{memory};
    const std::array works{Send{region.gather(all.first(64))}, Send{region.gather(all.last(64))}};
    const Operation sending = scope.post(works);  // <post>
    scribble(&memory[7]);                         // <use>
    must(scope.wait(sending));
  }));
  must(first.wait().result);
  must(second.wait().result);
}

}  // namespace verbatim::test
