// EXPECT: ignoring return
// SPDX-License-Identifier: MIT OR Apache-2.0
// A message that was not sent, and nobody knows.
#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::GatherElement from) {
#ifdef CONTROL
  if (const auto sent = channel.send(from); !sent) return;
#else
  channel.send(from);
#endif
}
