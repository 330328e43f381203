// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT asan: use-after-poison ... <use> ... that the device writes, posted at ... <post>:
//   ... <post>
// EXPECT tsan: data race ...   Read of size ... <use> ... Previous write of size ...
//   <post> ... 'channel receive'
// EXPECT msan: receive_read
// EXPECT valgrind: Invalid read of size ... <use>
// A span of an owned buffer is kept, and read while a receive has the buffer.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(span_kept_read) {
  Channels c;
  Buffer buffer = must(c.domain.allocate(Channels::kSize));
  const std::span<std::byte> kept = buffer.bytes();
  Pending receiving = c.left.receive(std::move(buffer));  // <post>
  use(&kept[7]);                                          // <use>
  c.deliver();
  must(receiving.wait().result);
}

}  // namespace verbatim::test
