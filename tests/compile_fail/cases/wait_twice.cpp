// EXPECT clang: 'wait' on object 'sending' while it is in the 'consumed' state
// SPDX-License-Identifier: MIT OR Apache-2.0
// The first wait() took the result and the buffer.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::Buffer buffer) {
#ifdef CONTROL
  verbatim::Pending sending = channel.send(std::move(buffer));
  static_cast<void>(sending.wait());
#else
  verbatim::Pending sending = channel.send(std::move(buffer));
  static_cast<void>(sending.wait());
  static_cast<void>(sending.wait());
#endif
}
