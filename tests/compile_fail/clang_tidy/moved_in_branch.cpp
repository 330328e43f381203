// SPDX-License-Identifier: MIT OR Apache-2.0
// Moved on one of two ways, used on both: -Wconsumed lets it pass.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::Buffer buffer, bool send) {
  if (send) static_cast<void>(channel.send(std::move(buffer)).wait());
#ifndef CONTROL
  static_cast<void>(buffer.bytes());
#endif
}
