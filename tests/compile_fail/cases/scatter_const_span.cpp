// EXPECT: scatter\(\) into const memory
// SPDX-License-Identifier: MIT OR Apache-2.0
// A view of constant memory is constant memory.
#include <cstddef>
#include <span>

#include "verbatim/verbs/memory_region.hpp"

void misuse(const verbatim::MemoryRegion& region, std::span<std::byte> bytes) {
#ifdef CONTROL
  static_cast<void>(region.scatter(bytes));
#else
  static_cast<void>(region.scatter(std::span<const std::byte>{bytes}));
#endif
}
