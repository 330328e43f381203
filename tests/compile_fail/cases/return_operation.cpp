// EXPECT: the closure of a scope returns an Operation or the Scope
// SPDX-License-Identifier: MIT OR Apache-2.0
// The handle would outlive its scope.
#include <span>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, const verbatim::MemoryRegion& region,
            std::span<std::byte> bytes) {
#ifdef CONTROL
  static_cast<void>(channel.scope([&](verbatim::Scope& scope) {
    const verbatim::Operation posted = scope.post(verbatim::Receive{region.scatter(bytes)});
    return posted.posted();
  }));
#else
  static_cast<void>(channel.scope([&](verbatim::Scope& scope) {
    const verbatim::Operation posted = scope.post(verbatim::Receive{region.scatter(bytes)});
    return posted;
  }));
#endif
}
