// EXPECT: ignoring return
// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations that failed, and nobody knows.
#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::GatherElement from) {
  const auto body = [from](verbatim::Scope& scope) { scope.post_detached(verbatim::Send{from}); };
#ifdef CONTROL
  if (const auto outcome = channel.scope(body); !outcome) return;
#else
  channel.scope(body);
#endif
}
