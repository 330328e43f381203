// EXPECT: deleted.*Channel
// SPDX-License-Identifier: MIT OR Apache-2.0
// Two owners of one queue pair.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel channel) {
#ifdef CONTROL
  const verbatim::Channel moved = std::move(channel);
  static_cast<void>(moved);
#else
  const verbatim::Channel copy = channel;
  static_cast<void>(copy);
#endif
}
