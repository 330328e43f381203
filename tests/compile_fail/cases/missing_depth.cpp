// EXPECT: deleted (function|constructor).*Required
// SPDX-License-Identifier: MIT OR Apache-2.0
// How deep a completion queue has to be is the caller's to say.
#include "verbatim/verbs/completion_queue.hpp"

void misuse() {
#ifdef CONTROL
  const verbatim::CompletionQueueOptions options{.depth = 16, .vector = 1};
  static_cast<void>(options);
#else
  const verbatim::CompletionQueueOptions options{.vector = 1};
  static_cast<void>(options);
#endif
}
