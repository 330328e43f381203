// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT asan: memory is freed while the device owns it; freed at: ... <use> ... and posted at ...
//   <post>: ... #0 ... <post>
// EXPECT tsan: data race ...   Write of size ... <use> ... Previous write of size ...
//   <post> ... 'channel receive'
// Memory is freed while the device has it.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(freed) {
  Channels c;
  auto* const memory = static_cast<std::byte*>(std::malloc(Channels::kSize));
  const MemoryRegion region = must(c.domain.register_local(std::span{memory, Channels::kSize}));
  must(c.left.scope([&](Scope& scope) {
    std::span<std::byte> bytes{memory, Channels::kSize};
    const Operation receiving = scope.post(Receive{region.scatter(bytes)});  // <post>
    std::free(memory);                                                       // <use>
    c.deliver(0);
    must(scope.wait(receiving));
  }));
}

}  // namespace verbatim::test
