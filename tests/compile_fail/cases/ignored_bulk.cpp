// EXPECT: ignoring return
// SPDX-License-Identifier: MIT OR Apache-2.0
// Peers that have not got it, and nobody knows.
#include "verbatim/multi/multi_channel.hpp"

void misuse(verbatim::MultiChannel& multi, verbatim::GatherElement from) {
#ifdef CONTROL
  if (!multi.multicast(multi.peers(), verbatim::Send{from})) return;
#else
  multi.multicast(multi.peers(), verbatim::Send{from});
#endif
}
