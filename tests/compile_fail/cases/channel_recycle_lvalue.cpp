// EXPECT: discards qualifiers|is an lvalue
// SPDX-License-Identifier: MIT OR Apache-2.0
// Recycling uses the channel up: it has to be moved.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel) {
#ifdef CONTROL
  static_cast<void>(std::move(channel).recycle());
#else
  static_cast<void>(channel.recycle());
#endif
}
