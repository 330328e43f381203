// EXPECT: (ignoring return|ignoring returned|discard).*(nodiscard|brings the message)
// SPDX-License-Identifier: MIT OR Apache-2.0
// Nothing would be received.
#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel) {
#ifdef CONTROL
  static_cast<void>(channel.receive().wait());
#else
  channel.receive();
#endif
}
