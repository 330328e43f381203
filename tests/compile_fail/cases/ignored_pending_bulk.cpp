// EXPECT: ignoring return
// SPDX-License-Identifier: MIT OR Apache-2.0
// The buffer is given away.
#include "verbatim/multi/multi_channel.hpp"

#include <utility>

void misuse(verbatim::MultiChannel& multi, verbatim::Buffer buffer) {
#ifdef CONTROL
  auto [back, result] = multi.multicast(multi.peers(), std::move(buffer)).wait();
  static_cast<void>(back);
  static_cast<void>(result);
#else
  multi.multicast(multi.peers(), std::move(buffer));
#endif
}
