// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: gather(): outside the region ... <post>
// An element of memory that its region does not cover.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(outside_region) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(std::span{memory}.first(128)));
  Pending accepting = c.accept();
  must(c.left.send(region.gather(memory)));  // <post>
  must(accepting.wait().result);
}

}  // namespace verbatim::test
