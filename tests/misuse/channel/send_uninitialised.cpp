// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT msan: send_uninitialised
// EXPECT valgrind: Uninitialised byte(s) found ... <post> ... 200 bytes inside
// Bytes that nobody wrote are sent.
#include <algorithm>
#include <memory>

#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(send_uninitialised) {
  Channels c;
  const std::unique_ptr<std::byte[]> memory{new std::byte[Channels::kSize]};
  const std::span bytes{memory.get(), Channels::kSize};
  std::ranges::fill(bytes.first(200), std::byte{1});
  const MemoryRegion region = must(c.domain.register_local(bytes));
  Pending accepting = c.accept();
  must(c.left.send(region.gather(bytes)));  // <post>
  must(accepting.wait().result);
}

}  // namespace verbatim::test
