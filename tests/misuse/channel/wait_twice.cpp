// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: wait: stale
// An owned operation is waited for a second time. The reference hides it from clang.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(wait_twice) {
  Channels c;
  Pending accepting = c.accept();
  Pending sending = c.left.send(must(c.domain.allocate(Channels::kSize)));
  Pending<Buffer>& same = sending;
  must(sending.wait().result);
  must(same.wait().result);
  must(accepting.wait().result);
}

}  // namespace verbatim::test
