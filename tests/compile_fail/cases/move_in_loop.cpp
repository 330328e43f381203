// EXPECT clang: state of variable 'buffer' must match
// SPDX-License-Identifier: MIT OR Apache-2.0
// The second round has no buffer to send.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::Buffer buffer) {
#ifdef CONTROL
  for (int i = 0; i < 2; ++i) buffer = channel.send(std::move(buffer)).wait().buffer;
#else
  for (int i = 0; i < 2; ++i) static_cast<void>(channel.send(std::move(buffer)).wait());
#endif
}
