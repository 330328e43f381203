// EXPECT: scatter\(\) into const memory
// SPDX-License-Identifier: MIT OR Apache-2.0
// The device writes there.
#include <cstddef>
#include <vector>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Scope& scope, const verbatim::MemoryRegion& region,
            std::vector<std::byte>& bytes) {
#ifdef CONTROL
  scope.post_detached(verbatim::Receive{region.scatter(bytes)});
#else
  const std::vector<std::byte>& constant = bytes;
  scope.post_detached(verbatim::Receive{region.scatter(constant)});
#endif
}
