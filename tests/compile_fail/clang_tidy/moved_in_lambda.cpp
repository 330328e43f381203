// SPDX-License-Identifier: MIT OR Apache-2.0
// Moved by a lambda that holds a reference: the compilers do not look into it.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Buffer buffer) {
  const auto take = [&] { const verbatim::Buffer taken = std::move(buffer); };
  take();
#ifndef CONTROL
  static_cast<void>(buffer.bytes());
#endif
}
