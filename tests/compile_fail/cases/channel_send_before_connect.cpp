// EXPECT: no member named .send
// SPDX-License-Identifier: MIT OR Apache-2.0
// Without a peer there is nobody to send to; receives may be posted.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::PreparedChannel& prepared, verbatim::Buffer buffer) {
#ifdef CONTROL
  static_cast<void>(prepared.receive(std::move(buffer)).wait());
#else
  static_cast<void>(prepared.send(std::move(buffer)).wait());
#endif
}
