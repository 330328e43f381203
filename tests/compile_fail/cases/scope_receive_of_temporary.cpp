// EXPECT: scatter\(\) into a temporary
// SPDX-License-Identifier: MIT OR Apache-2.0
// The vector is gone before the device writes to it.
#include <cstddef>
#include <vector>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Scope& scope, const verbatim::MemoryRegion& region,
            std::vector<std::byte>& bytes) {
#ifdef CONTROL
  scope.post_detached(verbatim::Receive{region.scatter(bytes)});
#else
  bytes.clear();
  scope.post_detached(verbatim::Receive{region.scatter(std::vector<std::byte>(8))});
#endif
}
