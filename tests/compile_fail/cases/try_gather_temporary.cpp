// EXPECT: try_gather\(\) of a temporary
// SPDX-License-Identifier: MIT OR Apache-2.0
// The form that returns an error is no way around it.
#include <cstddef>
#include <vector>

#include "verbatim/verbs/memory_region.hpp"

void misuse(const verbatim::MemoryRegion& region) {
#ifdef CONTROL
  const std::vector<std::byte> named(10);
  static_cast<void>(region.try_gather(named));
#else
  static_cast<void>(region.try_gather(std::vector<std::byte>(10)));
#endif
}
