// EXPECT: deleted (function|copy constructor).*Buffer
// SPDX-License-Identifier: MIT OR Apache-2.0
// Two owners of one mapping.
#include <utility>

#include "verbatim/verbs/buffer.hpp"

void misuse(verbatim::Buffer buffer) {
#ifdef CONTROL
  const verbatim::Buffer moved = std::move(buffer);
  static_cast<void>(moved);
#else
  const verbatim::Buffer copy = buffer;
  static_cast<void>(copy);
#endif
}
