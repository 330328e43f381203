// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked asan tsan valgrind: misuse: buffer overlaps an operation in flight ...
//   <post> ... <other>
// EXPECT msan: overlap_other_queue
// Two channels receive into the same memory.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(overlap_two_channels) {
  Channels c;
  Channels others;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  const MemoryRegion again = must(others.domain.register_local(memory));
  must(c.left.scope([&](Scope& scope) {
    const Operation first = scope.post(Receive{region.scatter(memory)});  // <other>
    must(others.left.scope([&](Scope& inner) {
      const Operation second = inner.post(Receive{again.scatter(memory)});  // <post>
      others.deliver();
      must(inner.wait(second));
    }));
    c.deliver();
    must(scope.wait(first));
  }));
}

}  // namespace verbatim::test
