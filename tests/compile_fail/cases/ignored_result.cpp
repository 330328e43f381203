// EXPECT: ignoring return value
// SPDX-License-Identifier: MIT OR Apache-2.0
// A failure that nobody looks at.
#include "verbatim/verbs/queue_pair.hpp"

void misuse(verbatim::QueuePair& queue_pair) {
#ifdef CONTROL
  if (const auto moved = queue_pair.move_to_error(); !moved) return;
#else
  queue_pair.move_to_error();
#endif
}
