// EXPECT: the memory of an owner must stay where it is when the owner is moved
// SPDX-License-Identifier: MIT OR Apache-2.0
// The device would use the place where the owner was.
#include <array>
#include <utility>

#include "verbatim/channel/channel.hpp"

struct Inside {
  std::array<std::byte, 64> bytes;
  verbatim::MemoryRegion region;
};

template <>
struct verbatim::OwnerTraits<Inside> {
#ifdef CONTROL
  static constexpr bool kStaysWhenMoved = true;  // A lie, but its own.
#else
  static constexpr bool kStaysWhenMoved = false;
#endif
  static std::array<GatherElement, 1> gather(const Inside& owner, std::source_location) {
    return {owner.region.gather(owner.bytes)};
  }
};

void misuse(verbatim::Channel& channel, Inside owner) {
  static_cast<void>(channel.send(std::move(owner)).wait());
}
