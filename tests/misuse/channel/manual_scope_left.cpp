// SPDX-License-Identifier: MIT OR Apache-2.0
// EXPECT always: misuse: manual_scope(): operations were not waited for (value 1, limit 0) ...
//   <post>
// A manual scope is left with an operation that nobody waited for.
#include "misuse/channel_misuse.hpp"

namespace verbatim::test {

VERBATIM_MISUSE(manual_scope_left) {
  Channels c;
  Pending accepting = c.accept();
  const auto body = [&](Scope& scope) { static_cast<void>(scope.post(Send{c.message.gather()})); };
  must(c.left.manual_scope(body));  // <post>
  must(accepting.wait().result);
}

}  // namespace verbatim::test
