// SPDX-License-Identifier: MIT OR Apache-2.0
// The handle is dropped in flight. It does no harm: the slot keeps the buffer.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(forgotten_pending) {
  Channels c;
  {
    const Pending forgotten = c.left.receive(must(c.domain.allocate(Channels::kSize)));
  }
  c.deliver();
}

}  // namespace verbatim::test
