// EXPECT: discards qualifiers|is an lvalue
// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue pair that is reset is no longer connected: it has to be moved.
#include <utility>

#include "verbatim/verbs/queue_pair.hpp"

void misuse(verbatim::QueuePair& queue_pair) {
#ifdef CONTROL
  static_cast<void>(std::move(queue_pair).reset());
#else
  static_cast<void>(queue_pair.reset());
#endif
}
