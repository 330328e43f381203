// EXPECT: the closure of a scope returns an Operation or the Scope
// SPDX-License-Identifier: MIT OR Apache-2.0
// The scope itself would be used after its end.
#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel) {
#ifdef CONTROL
  static_cast<void>(channel.scope([&](verbatim::Scope& scope) {
    static_cast<void>(scope);
    return true;
  }));
#else
  static_cast<void>(
      channel.scope([&](verbatim::Scope& scope) -> verbatim::Scope& { return scope; }));
#endif
}
