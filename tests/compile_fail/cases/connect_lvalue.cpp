// EXPECT: discards qualifiers|is an lvalue
// SPDX-License-Identifier: MIT OR Apache-2.0
// Connecting uses the prepared queue pair up: it has to be moved.
#include <utility>

#include "verbatim/verbs/queue_pair.hpp"

void misuse(verbatim::PreparedQueuePair& prepared, const verbatim::Endpoint& peer) {
#ifdef CONTROL
  static_cast<void>(std::move(prepared).connect(peer));
#else
  static_cast<void>(prepared.connect(peer));
#endif
}
