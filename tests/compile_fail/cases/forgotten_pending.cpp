// EXPECT clang -DVERBATIM_STRICT_LINEAR: '~Pending' on object 'sending'
// SPDX-License-Identifier: MIT OR Apache-2.0
// With strict linear handles, each has to be waited for on every way.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::Buffer buffer, bool tired) {
#ifdef CONTROL
  verbatim::Pending sending = channel.send(std::move(buffer));
  if (tired) static_cast<void>(sending.posted());
  static_cast<void>(sending.wait());
#else
  verbatim::Pending sending = channel.send(std::move(buffer));
  if (tired) return;
  static_cast<void>(sending.wait());
#endif
}
