// EXPECT: gather\(\) of a temporary
// SPDX-License-Identifier: MIT OR Apache-2.0
// The vector is gone before the device reads it.
#include <cstddef>
#include <vector>

#include "verbatim/verbs/memory_region.hpp"

void misuse(const verbatim::MemoryRegion& region) {
#ifdef CONTROL
  const std::vector<std::byte> named(10);
  static_cast<void>(region.gather(named));
#else
  static_cast<void>(region.gather(std::vector<std::byte>(10)));
#endif
}
