// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: multicast: not found: peer 7
// The same in a list: nothing is posted.
#include <array>

#include "misuse/multi_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(peer_unknown_in_list) {
  Peers p;
  const std::array<PeerIndex, 2> peers{0, 7};
  const auto sent = p.multi.multicast(peers, Send{p.message.gather()});
  if (p.multi[0].free_sends() != 16) give_up({.code = Errc::malformed, .operation = "posted"});
  if (!sent) give_up(sent.error());
}

}  // namespace verbatim::test
