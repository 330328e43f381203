// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a post writes into its slot about the work: the state, and whether a receive of the
/// peer's is needed before it can be over.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/verbs/work.hpp"

namespace verbatim::detail {

template <class Work>
constexpr bool takes_receive(const Work&) noexcept {
  return false;
}
template <std::size_t N>
constexpr bool takes_receive(const Send<N>&) noexcept {
  return true;
}
template <std::size_t N>
constexpr bool takes_receive(const Write<N>& work) noexcept {
  return work.options.immediate.has_value();
}

/// Both in one store, which g++ 12 does not make of two. Of 32 bits: it has no store of a constant
/// of 16. -1 / 0.
template <class Slot, class State>
VERBATIM_HOT void mark(Slot& slot, State state, bool takes_receive) noexcept {
  static_assert(sizeof(State) == 1 && offsetof(Slot, takes_receive) == offsetof(Slot, state) + 1 &&
                sizeof(slot.behind_mark) == 2);
  const std::uint32_t number = std::to_underlying(state);
  const std::uint32_t both = std::endian::native == std::endian::little
                                 ? number | std::uint32_t{takes_receive} << 8
                                 : number << 24 | std::uint32_t{takes_receive} << 16;
  std::memcpy(reinterpret_cast<std::byte*>(&slot) + offsetof(Slot, state), &both, sizeof both);
}

}  // namespace verbatim::detail
