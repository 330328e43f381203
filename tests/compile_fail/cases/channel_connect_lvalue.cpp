// EXPECT: discards qualifiers|is an lvalue
// SPDX-License-Identifier: MIT OR Apache-2.0
// Connecting uses the prepared channel up: it has to be moved.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::PreparedChannel& prepared, const verbatim::Endpoint& peer) {
#ifdef CONTROL
  static_cast<void>(std::move(prepared).connect(peer));
#else
  static_cast<void>(prepared.connect(peer));
#endif
}
