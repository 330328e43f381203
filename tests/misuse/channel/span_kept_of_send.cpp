// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked valgrind: misuse: send buffer was modified while the device was ... <post>
// EXPECT tsan: data race ...   Write of size ... <use> ... Previous read of size ...
//   <post> ... 'channel send'
// A span of an owned buffer is kept, and written while a send has the buffer.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(span_kept_of_send) {
  Channels c;
  Pending accepting = c.accept();
  Buffer buffer = must(c.domain.allocate(Channels::kSize));
  const std::span<std::byte> kept = buffer.bytes();
  Pending sending = c.left.send(std::move(buffer));  // <post>
  scribble(&kept[7]);                                // <use>
  must(sending.wait().result);
  must(accepting.wait().result);
}

}  // namespace verbatim::test
