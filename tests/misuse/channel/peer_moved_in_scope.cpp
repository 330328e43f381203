// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: PeerScope: a channel was moved away inside of the scope
// A channel leaves the MultiChannel while a scope has work there.
#include "misuse/multi_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(peer_moved_in_scope) {
  Peers p;
  Bytes memory(Peers::kSize);
  const MemoryRegion region = must(p.domain.register_local(memory));
  std::vector<Channel> taken;
  const auto outcome = p.multi.scope([&](PeerScope& scope) {
    scope.post_detached(0, Receive{region.scatter(memory)});
    taken.push_back(std::move(p.multi[0]));
  });
  if (!outcome) give_up(outcome.error());
}

}  // namespace verbatim::test
