// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error:
// The registration of a receive buffer is undone in flight: the device refuses to write there.
#include <optional>

#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(region_dropped) {
  Channels c;
  Bytes memory(Channels::kSize);
  std::optional region = must(c.domain.register_local(memory));
  must(c.left.scope([&](Scope& scope) {
    const Operation receiving = scope.post(Receive{region->scatter(memory)});
    region.reset();
    static_cast<void>(c.right.send(c.message.gather()));
    must(scope.wait(receiving));
  }));
}

}  // namespace verbatim::test
