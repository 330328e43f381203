// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: scatter(): outside the region, or the region is read-only ... <post>
// A receive into memory that was registered for reading only.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(scatter_read_only) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_read_only(memory));
  must(c.left.scope([&](Scope& scope) {
    const Operation receiving = scope.post(Receive{region.scatter(memory)});  // <post>
    c.deliver();
    must(scope.wait(receiving));
  }));
}

}  // namespace verbatim::test
