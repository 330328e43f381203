// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: Buffer::bytes(): the buffer was moved away ... <use>
// The device has the buffer until wait(). The reference hides it from clang.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(use_after_send) {
  Channels c;
  Pending accepting = c.accept();
  Buffer buffer = must(c.domain.allocate(Channels::kSize));
  Buffer& same = buffer;
  Pending sending = c.left.send(std::move(buffer));
  use(same.bytes().data());  // <use>
  must(sending.wait().result);
  must(accepting.wait().result);
}

}  // namespace verbatim::test
