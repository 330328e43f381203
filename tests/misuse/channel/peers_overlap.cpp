// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT checked asan tsan valgrind: misuse: buffer overlaps an operation in flight ... <post>
// EXPECT msan: overlap_other_queue
// Two peers of one call fill the same memory.
#include <array>

#include "misuse/multi_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(peers_overlap) {
  Peers p;
  p.join();
  Bytes memory(Peers::kSize);
  const MemoryRegion region = must(p.domain.register_local(memory));
  const std::array receives{PeerWork{0, Receive{region.scatter(memory)}},
                            PeerWork{1, Receive{region.scatter(memory)}}};
  std::vector<Pending<NoMemory>> sending;  // They wait for the receives.
  for (Channel& other : p.others) sending.push_back(other.send(NoMemory{}, {.immediate = 1}));
  std::array<Completion, 2> out;
  const auto got = p.multi.gather(receives, out);  // <post>
  if (!got) give_up(got.error());
  for (auto& each : sending) must(each.wait().result);
}

}  // namespace verbatim::test
