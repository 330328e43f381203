// EXPECT: this owner shares its memory .* nothing can be received or read into it
// SPDX-License-Identifier: MIT OR Apache-2.0
// Others may be reading what the device would overwrite.
#include "verbatim/multi/multi_channel.hpp"

#include <memory>
#include <utility>
#include <vector>

using Shared = std::shared_ptr<const verbatim::Buffer>;

void misuse(verbatim::MultiChannel& multi, Shared value) {
#ifdef CONTROL
  std::vector<verbatim::PeerSend<Shared>> all;
  all.push_back({0, std::move(value)});
  static_cast<void>(multi.scatter(std::move(all)).wait());
#else
  std::vector<verbatim::PeerReceive<Shared>> all;
  all.push_back({0, std::move(value)});
  static_cast<void>(multi.gather(std::move(all)).wait());
#endif
}
