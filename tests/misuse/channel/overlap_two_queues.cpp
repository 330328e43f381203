// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked asan tsan valgrind: misuse: buffer overlaps an operation in flight ...
//   <post> ... <other>
// EXPECT msan: overlap_other_queue
// A send reads what a receive of the same channel may write.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(overlap_two_queues) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  Pending accepting = c.accept();
  must(c.left.scope([&](Scope& scope) {
    const Operation receiving = scope.post(Receive{region.scatter(memory)});  // <other>
    const Operation sending = scope.post(Send{region.gather(memory)});        // <post>
    c.deliver();
    must(scope.wait(sending));
    must(scope.wait(receiving));
  }));
  must(accepting.wait().result);
}

}  // namespace verbatim::test
