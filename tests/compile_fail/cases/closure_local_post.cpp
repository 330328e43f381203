// EXPECT g++ -O1: storing the address of local variable 'local'.*must_outlive_the_scope
// SPDX-License-Identifier: MIT OR Apache-2.0
// The buffer dies with the closure, before the scope waits.
#include <array>
#include <cstddef>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, const verbatim::MemoryRegion& region) {
#ifdef CONTROL
  std::array<std::byte, 64> local{};
  static_cast<void>(channel.scope([&](verbatim::Scope& scope) {
    static_cast<void>(scope.post(verbatim::Receive{region.scatter(local)}));
  }));
#else
  static_cast<void>(channel.scope([&](verbatim::Scope& scope) {
    std::array<std::byte, 64> local{};
    static_cast<void>(scope.post(verbatim::Receive{region.scatter(local)}));
  }));
#endif
}
