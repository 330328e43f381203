// EXPECT clang: 'bytes' on object 'buffer' while it is in the 'consumed' state
// SPDX-License-Identifier: MIT OR Apache-2.0
// The device has the buffer until wait().
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::Buffer buffer) {
#ifdef CONTROL
  verbatim::Pending sending = channel.send(std::move(buffer));
  buffer = sending.wait().buffer;
  static_cast<void>(buffer.bytes());
#else
  verbatim::Pending sending = channel.send(std::move(buffer));
  static_cast<void>(buffer.bytes());
  static_cast<void>(sending.wait());
#endif
}
