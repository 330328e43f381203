// EXPECT: deleted.*Pending
// SPDX-License-Identifier: MIT OR Apache-2.0
// Two handles of one operation, two owners of one buffer.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Pending<verbatim::Buffer> pending) {
#ifdef CONTROL
  verbatim::Pending moved = std::move(pending);
  static_cast<void>(moved.wait());
#else
  verbatim::Pending copy = pending;
  static_cast<void>(copy.wait());
#endif
}
