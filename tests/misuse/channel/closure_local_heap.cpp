// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT asan: memory is freed while the device owns it; freed at: ... <use> ... and posted at ...
//   <post>: ... #0 ... <post>
// EXPECT tsan: data race ...   Write of size ... <use> ... Previous write of size ...
//   <post> ... 'channel receive'
// Memory on the heap dies with the closure, before the scope waits.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(closure_local_heap) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  must(c.left.scope([&](Scope& scope) {
    const Bytes local = std::move(memory);
    std::span<std::byte> bytes{const_cast<std::byte*>(local.data()), local.size()};
    scope.post_detached(Receive{region.scatter(bytes)});  // <post>
    c.deliver(0);
  }));  // <use>
}

}  // namespace verbatim::test
