// SPDX-License-Identifier: MIT OR Apache-2.0
// The handles of device and domain go in flight. It does no harm: the channel keeps both alive.
#include <memory>

#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(domain_dropped) {
  auto channels = std::make_unique<Channels>();
  auto [left, right] = std::move(channels->pair);
  Pending receiving = left.receive(must(channels->domain.allocate(Channels::kSize)));
  Buffer message = must(channels->domain.allocate(Channels::kSize));
  channels.reset();
  must(right.send(std::move(message)).wait().result);
  must(receiving.wait().result);
}

}  // namespace verbatim::test
