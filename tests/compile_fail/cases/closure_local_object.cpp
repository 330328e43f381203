// EXPECT g++ -O1: storing the address of local variable 'local'.*must_outlive_the_scope
// SPDX-License-Identifier: MIT OR Apache-2.0
// The object dies with the closure, before the scope waits.
#include <cstdint>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, const verbatim::MemoryRegion& region) {
#ifdef CONTROL
  std::uint64_t local = 0;
  static_cast<void>(channel.scope(
      [&](verbatim::Scope& scope) { scope.post_detached(verbatim::Send{region.gather(local)}); }));
#else
  static_cast<void>(channel.scope([&](verbatim::Scope& scope) {
    std::uint64_t local = 0;
    scope.post_detached(verbatim::Send{region.gather(local)});
  }));
#endif
}
