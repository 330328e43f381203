// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked asan tsan valgrind: misuse: buffer overlaps an operation in flight ...
//   <post> ... <other>
// EXPECT msan: overlap_same_queue
// Two receives of one channel share a byte.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(overlap_same_queue) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  must(c.left.scope([&](Scope& scope) {
    const std::span all{memory};
    const Operation first = scope.post(Receive{region.scatter(all.first(129))});  // <other>
    const Operation second = scope.post(Receive{region.scatter(all.last(128))});  // <post>
    c.deliver(100);
    c.deliver(100);
    must(scope.wait(first));
    must(scope.wait(second));
  }));
}

}  // namespace verbatim::test
