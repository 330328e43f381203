// EXPECT: (ignoring return|ignoring returned|discard).*(nodiscard|dropping it)
// SPDX-License-Identifier: MIT OR Apache-2.0
// The buffer would be gone.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::Buffer buffer) {
#ifdef CONTROL
  static_cast<void>(channel.send(std::move(buffer)).wait());
#else
  channel.send(std::move(buffer));
#endif
}
