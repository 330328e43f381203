// EXPECT: no match|does not satisfy|constraints not satisfied|static assertion
// SPDX-License-Identifier: MIT OR Apache-2.0
// A string is more than its bytes: what it points to would not be sent.
#include <string>
#include <vector>

#include "verbatim/verbs/memory_region.hpp"

void misuse(const verbatim::MemoryRegion& region) {
#ifdef CONTROL
  const std::vector<char> characters(3);
  static_cast<void>(region.gather(characters));
#else
  const std::vector<std::string> objects(3);
  static_cast<void>(region.gather(objects));
#endif
}
