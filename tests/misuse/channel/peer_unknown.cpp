// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: MultiChannel: there is no such peer (value 1, limit 1) ... <post>
// An index that no peer has.
#include "misuse/multi_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(peer_unknown) {
  Peers p;
  must(p.multi[1].send(p.message.gather()));  // <post>
}

}  // namespace verbatim::test
