// EXPECT: scatter\(\) into const memory
// SPDX-License-Identifier: MIT OR Apache-2.0
// The device would write to what nobody may write to.
#include <cstddef>
#include <vector>

#include "verbatim/verbs/memory_region.hpp"

void misuse(const verbatim::MemoryRegion& region) {
#ifdef CONTROL
  std::vector<std::byte> writable(10);
  static_cast<void>(region.scatter(writable));
#else
  const std::vector<std::byte> constant(10);
  static_cast<void>(region.scatter(constant));
#endif
}
