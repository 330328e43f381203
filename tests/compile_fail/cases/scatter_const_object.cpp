// EXPECT: scatter\(\) into const memory
// SPDX-License-Identifier: MIT OR Apache-2.0
// The device would write into a constant.
#include <cstdint>

#include "verbatim/verbs/memory_region.hpp"

#ifdef CONTROL
void misuse(const verbatim::MemoryRegion& region, std::uint64_t& number) {
#else
void misuse(const verbatim::MemoryRegion& region, const std::uint64_t& number) {
#endif
  static_cast<void>(region.scatter(number));
}
