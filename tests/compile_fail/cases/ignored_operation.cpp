// EXPECT: ignoring return.*(Operation|wait\(\) for it)
// SPDX-License-Identifier: MIT OR Apache-2.0
// Nobody would wait for it: that is post_detached().
#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Scope& scope) {
#ifdef CONTROL
  scope.post_detached(verbatim::Receive{});
#else
  scope.post(verbatim::Receive{});
#endif
}
