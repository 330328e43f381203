// EXPECT clang: return value not in expected state
// SPDX-License-Identifier: MIT OR Apache-2.0
// What is returned was given away.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, verbatim::Buffer buffer) {
#ifdef CONTROL
  const auto send = [&](verbatim::Buffer given) {
    return channel.send(std::move(given)).wait().buffer;
  };
  buffer = send(std::move(buffer));
#else
  const auto send = [&](verbatim::Buffer given) {
    static_cast<void>(channel.send(std::move(given)).wait());
    return given;
  };
  buffer = send(std::move(buffer));
#endif
}
