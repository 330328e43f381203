// EXPECT: the closure of a scope returns an Operation or the Scope
// SPDX-License-Identifier: MIT OR Apache-2.0
// The scope itself would be used after its end.
#include "verbatim/multi/multi_channel.hpp"

void misuse(verbatim::MultiChannel& multi) {
#ifdef CONTROL
  static_cast<void>(multi.scope([&](verbatim::PeerScope& scope) {
    static_cast<void>(scope);
    return true;
  }));
#else
  static_cast<void>(
      multi.scope([&](verbatim::PeerScope& scope) -> verbatim::PeerScope* { return &scope; }));
#endif
}
