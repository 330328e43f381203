// EXPECT: no match|does not satisfy|constraints not satisfied|no matching
// SPDX-License-Identifier: MIT OR Apache-2.0
// The address of an object is not the object.
#include <cstdint>

#include "verbatim/verbs/memory_region.hpp"

void misuse(const verbatim::MemoryRegion& region, std::uint64_t* number) {
#ifdef CONTROL
  static_cast<void>(region.gather(*number));
#else
  static_cast<void>(region.gather(number));
#endif
}
