// EXPECT: deleted (function|copy constructor).*QueuePair
// SPDX-License-Identifier: MIT OR Apache-2.0
// Two owners of one queue pair.
#include <utility>

#include "verbatim/verbs/queue_pair.hpp"

void misuse(verbatim::QueuePair queue_pair) {
#ifdef CONTROL
  const verbatim::QueuePair moved = std::move(queue_pair);
  static_cast<void>(moved);
#else
  const verbatim::QueuePair copy = queue_pair;
  static_cast<void>(copy);
#endif
}
