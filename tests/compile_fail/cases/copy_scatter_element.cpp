// EXPECT: deleted (function|constructor).*ScatterElement
// SPDX-License-Identifier: MIT OR Apache-2.0
// Two requests would fill the same memory.
#include <utility>

#include "verbatim/verbs/elements.hpp"

void misuse(verbatim::ScatterElement element) {
#ifdef CONTROL
  const verbatim::ScatterElement moved = std::move(element);
  static_cast<void>(moved);
#else
  const verbatim::ScatterElement copy = element;
  static_cast<void>(copy);
#endif
}
