// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT tsan: data race ...   Read of size ... <post> ... Previous write of size ... <use> ...
//   'channel send'
// Another thread fills what is sent; nothing orders that before the post.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(fill_unordered) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  Pending accepting = c.accept();
  Signal filled;
  std::thread filler{[&] {
    scribble(&memory[7]);  // <use>
    filled.set();
  }};
  filled.wait();
  must(c.left.send(region.gather(memory)));  // <post>
  filler.join();
  must(accepting.wait().result);
}

}  // namespace verbatim::test
