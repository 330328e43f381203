// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: wait: stale
// A handle leaves its scope by a variable outside, and another scope waits for it.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(operation_kept) {
  Channels c;
  Pending accepting = c.accept();
  std::vector<Operation> kept;
  must(c.left.scope([&](Scope& scope) { kept.push_back(scope.post(Send{c.message.gather()})); }));
  must(c.left.scope([&](Scope& scope) { must(scope.wait(kept.front())); }));
  must(accepting.wait().result);
}

}  // namespace verbatim::test
