// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: element: 32 bits hold its length (value 4294967360 ... <post>
// An element that is longer than its length can say. No post is needed to see that.
#include <sys/mman.h>

#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(longer_than_32_bits) {
  Channels c;
  constexpr std::size_t kHuge = (std::size_t{1} << 32) + 64;
  void* const mapped =
      mmap(nullptr, kHuge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const std::span memory{static_cast<std::byte*>(mapped), kHuge};
  const MemoryRegion region = must(c.domain.register_read_only(memory));
  static_cast<void>(region.gather(memory));  // <post>
  munmap(mapped, kHuge);
}

}  // namespace verbatim::test
