// EXPECT: its move and its destructor must be noexcept
// SPDX-License-Identifier: MIT OR Apache-2.0
// A move that throws would lose the memory while the device has it.
#include <array>
#include <utility>

#include "verbatim/channel/channel.hpp"

struct Throwing {
  verbatim::Buffer buffer;
#ifndef CONTROL
  explicit Throwing(verbatim::Buffer given) : buffer(std::move(given)) {}
  Throwing(Throwing&& other) noexcept(false) : buffer(std::move(other.buffer)) {}
#endif
};

template <>
struct verbatim::OwnerTraits<Throwing> {
  static constexpr bool kStaysWhenMoved = true;
  static GatherElement gather(const Throwing& owner, ByteRange range, std::source_location where) {
    return OwnerTraits<Buffer>::gather(owner.buffer, range, where);
  }
};

void misuse(verbatim::Channel& channel, verbatim::Buffer buffer) {
  static_cast<void>(channel.send(Throwing{std::move(buffer)}).wait());
}
