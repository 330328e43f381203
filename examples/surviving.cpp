// SPDX-License-Identifier: MIT OR Apache-2.0
// The last rank is killed; the others learn which one it was, and continue without it.
//
//   verbatim run -n 4 --keep-going -- ./surviving
#include <signal.h>
#include <unistd.h>

#include "rank_main.hpp"

namespace vb = verbatim;

int main() {
  return as_rank([](vb::Node& node, const vb::ProtectionDomain&) -> vb::Result<void> {
    VERBATIM_TRY(node.barrier());
    VERBATIM_TRY(node.session().meet());  // all are through: the loss fails no earlier barrier
    if (node.rank() == node.world() - 1) kill(getpid(), SIGKILL);
    // [survive]
    auto met = node.barrier();
    while (!met && met.error() == vb::Errc::peer_lost) {
      std::printf("rank %u is lost\n", static_cast<unsigned>(met.error().error.value));
      VERBATIM_TRY(node.regroup());  // the survivors, as a new generation
      met = node.barrier();
    }
    VERBATIM_TRY(met);
    // [/survive]
    if (node.rank() == 0) std::printf("generation %u goes on\n", node.generation());
    return {};
  });
}
