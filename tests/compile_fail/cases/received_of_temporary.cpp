// EXPECT: (use of deleted function|call to deleted)
// SPDX-License-Identifier: MIT OR Apache-2.0
// The buffer dies at the end of the statement, and the bytes with it.
#include <utility>

#include "verbatim/channel/channel.hpp"

std::size_t misuse(verbatim::Channel& channel, verbatim::Buffer buffer) {
#ifdef CONTROL
  const auto done = channel.receive(std::move(buffer)).wait();
  return done.received().size();
#else
  return channel.receive(std::move(buffer)).wait().received().size();
#endif
}
