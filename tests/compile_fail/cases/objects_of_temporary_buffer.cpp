// EXPECT: deleted
// SPDX-License-Identifier: MIT OR Apache-2.0
// The objects are gone with the buffer.
#include "verbatim/verbs/buffer.hpp"

verbatim::Buffer make();

int misuse() {
#ifdef CONTROL
  const verbatim::Buffer buffer = make();
  return buffer.as<int>()[0];
#else
  return make().as<int>()[0];
#endif
}
