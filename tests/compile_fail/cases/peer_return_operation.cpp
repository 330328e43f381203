// EXPECT: the closure of a scope returns an Operation or the Scope
// SPDX-License-Identifier: MIT OR Apache-2.0
// The handle would outlive its scope.
#include "verbatim/multi/multi_channel.hpp"

void misuse(verbatim::MultiChannel& multi, verbatim::GatherElement from) {
#ifdef CONTROL
  static_cast<void>(multi.scope([&](verbatim::PeerScope& scope) {
    const verbatim::Operation posted = scope.post(0, verbatim::Send{from});
    return posted.posted();
  }));
#else
  static_cast<void>(multi.scope([&](verbatim::PeerScope& scope) {
    const verbatim::Operation posted = scope.post(0, verbatim::Send{from});
    return posted;
  }));
#endif
}
