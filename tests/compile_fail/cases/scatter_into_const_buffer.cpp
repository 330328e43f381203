// EXPECT: discards qualifiers|no matching|not marked const
// SPDX-License-Identifier: MIT OR Apache-2.0
// A constant buffer is not filled.
#include <utility>

#include "verbatim/verbs/buffer.hpp"

void misuse(verbatim::Buffer& buffer) {
#ifdef CONTROL
  static_cast<void>(buffer.scatter());
#else
  static_cast<void>(std::as_const(buffer).scatter());
#endif
}
