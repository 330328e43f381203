// EXPECT: no matching (member )?function
// SPDX-License-Identifier: MIT OR Apache-2.0
// A blocking receive would wait for a peer that there is not.
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::PreparedChannel& prepared, verbatim::ScatterElement into,
            verbatim::Buffer buffer) {
#ifdef CONTROL
  static_cast<void>(into);
  static_cast<void>(prepared.receive(std::move(buffer)).wait());
#else
  static_cast<void>(buffer);
  static_cast<void>(prepared.receive(std::move(into)));
#endif
}
