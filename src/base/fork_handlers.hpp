// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Handlers of fork(), registered when the library is loaded.
///
/// Not at first use: another thread may fork in the middle of it. The child would then find a lock
/// that is held for ever, and no handler that unlocks it.
#include <pthread.h>

namespace verbatim::detail {

/// Only as a static object at namespace or class scope.
class ForkHandlers {
 public:
  using Handler = void (*)();
  ForkHandlers(Handler before, Handler in_parent, Handler in_child) noexcept {
    pthread_atfork(before, in_parent, in_child);
  }
};

}  // namespace verbatim::detail
