// EXPECT: gather\(\) of a temporary
// SPDX-License-Identifier: MIT OR Apache-2.0
// The number is gone before the device reads it.
#include <cstdint>

#include "verbatim/verbs/memory_region.hpp"

void misuse(const verbatim::MemoryRegion& region, std::uint64_t number) {
#ifdef CONTROL
  static_cast<void>(region.gather(number));
#else
  static_cast<void>(region.gather(number + 1));
#endif
}
