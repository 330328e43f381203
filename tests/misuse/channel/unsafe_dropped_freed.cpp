// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT asan: memory is freed while the device owns it; freed at: ... <use> ... and posted at ...
//   <post>: ... #0 ... <post>
// EXPECT tsan: data race ...   Write of size ... <use> ... Previous write of size ...
//   <post> ... 'channel receive'
// A handle without a scope is dropped, and its memory freed: the operation goes on.
#include "misuse/channel_misuse.hpp"
#include "verbatim/channel/unsafe.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(unsafe_dropped_freed) {
  Channels c;
  auto* const memory = static_cast<std::byte*>(std::malloc(Channels::kSize));
  const MemoryRegion region = must(c.domain.register_local(std::span{memory, Channels::kSize}));
  {
    std::span<std::byte> bytes{memory, Channels::kSize};
    const auto dropped = unsafe::post(c.left, Receive{region.scatter(bytes)});  // <post>
  }
  std::free(memory);  // <use>
  c.deliver(0);
}

}  // namespace verbatim::test
