// EXPECT: scatter\(\) into a temporary
// SPDX-License-Identifier: MIT OR Apache-2.0
// The vector is gone before the device fills it.
#include <cstddef>
#include <vector>

#include "verbatim/verbs/memory_region.hpp"

void misuse(const verbatim::MemoryRegion& region) {
#ifdef CONTROL
  std::vector<std::byte> named(10);
  static_cast<void>(region.scatter(named));
#else
  static_cast<void>(region.scatter(std::vector<std::byte>(10)));
#endif
}
