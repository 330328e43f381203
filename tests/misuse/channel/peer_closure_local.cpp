// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: Scope: the buffer is local to the scope's closure ... <post>
// In a scope over peers, the buffer dies with the closure.
#include <array>

#include "misuse/multi_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(peer_closure_local) {
  Peers p;
  Pending accepting = p.accept();
  const auto outcome = p.multi.scope([&](PeerScope& scope) {
    std::array<std::byte, 64> local{};
    const MemoryRegion region = must(p.domain.register_local(local));
    const Operation sending = scope.post(0, Send{region.gather(local)});  // <post>
    must(scope.wait(sending));
  });
  if (!outcome) give_up(outcome.error());
  must(accepting.wait().result);
}

}  // namespace verbatim::test
