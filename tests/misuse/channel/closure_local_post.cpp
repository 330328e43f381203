// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: Scope: the buffer is local to the scope's closure ... <post>
// The buffer dies with the closure. The wait behind the post hides it from g++, and would make it
// right, but nothing says that it is reached.
#include <array>

#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(closure_local_post) {
  Channels c;
  Pending accepting = c.accept();
  must(c.left.scope([&](Scope& scope) {
    std::array<std::byte, 64> local{};
    const MemoryRegion region = must(c.domain.register_local(local));
    const Operation sending = scope.post(Send{region.gather(local)});  // <post>
    must(scope.wait(sending));
  }));
  must(accepting.wait().result);
}

}  // namespace verbatim::test
