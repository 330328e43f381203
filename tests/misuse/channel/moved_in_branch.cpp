// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: Buffer::bytes(): the buffer was moved away ... <use>
// The buffer is gone on one of two ways; afterwards it is used.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(moved_in_branch) {
  Channels c;
  Pending accepting = c.accept();
  Buffer buffer = must(c.domain.allocate(Channels::kSize));
  std::vector<Pending<Buffer>> sending;
  if (c.left.free_sends() > 0) sending.push_back(c.left.send(std::move(buffer)));
  use(buffer.bytes().data());  // <use>
  must(sending.front().wait().result);
  must(accepting.wait().result);
}

}  // namespace verbatim::test
