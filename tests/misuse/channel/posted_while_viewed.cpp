// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: Channel: the buffer is posted while with() looks at it ... <post>
// The buffer is posted while with() looks at its bytes.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(posted_while_viewed) {
  Channels c;
  Pending accepting = c.accept();
  Buffer buffer = must(c.domain.allocate(Channels::kSize));
  buffer.with([&](std::span<std::byte> bytes) {
    must(c.left.send(std::move(buffer)).wait().result);  // <post>
    use(bytes.data());
  });
  must(accepting.wait().result);
}

}  // namespace verbatim::test
