// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT asan: use-after-poison ... <use> ... that the device writes, posted at ... <post>:
//   ... <post>
// EXPECT tsan: data race ...   Read of size ... <use> ... Previous write of size ...
//   <post> ... 'channel send'
// EXPECT msan: receive_read
// EXPECT valgrind: Invalid read of size ... <use>
// Borrowed memory is read while the device fills it with an RDMA read.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(read_target_read) {
  Channels c;
  Bytes memory(Channels::kSize);
  const MemoryRegion region = must(c.domain.register_local(memory));
  const SharedRegion shared = must(c.domain.allocate_shared(Channels::kSize, Access::remote_read));
  must(c.left.scope([&](Scope& scope) {
    const Operation reading = scope.post(Read{region.scatter(memory), shared.remote()});  // <post>
    use(&memory[7]);                                                                      // <use>
    must(scope.wait(reading));
  }));
}

}  // namespace verbatim::test
