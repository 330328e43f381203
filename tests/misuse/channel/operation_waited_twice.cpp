// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: error: wait: stale
// The result of an operation is taken a second time.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(operation_waited_twice) {
  Channels c;
  Pending accepting = c.accept();
  must(c.left.scope([&](Scope& scope) {
    const Operation sending = scope.post(Send{c.message.gather()});
    must(scope.wait(sending));
    must(scope.wait(sending));
  }));
  must(accepting.wait().result);
}

}  // namespace verbatim::test
