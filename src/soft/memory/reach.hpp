// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Reaching registered memory: who may touch it, and how it is copied from here.
#include <cstdint>

#include "soft/memory/location.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/peer.hpp"

namespace verbatim::engine {

class Engine;

/// What a request wants to do with a range.
struct RangeCheck {
  std::uint32_t key;
  std::uint32_t domain;
  std::uint32_t access;  ///< All of these bits.
  std::uint64_t address;
  std::uint64_t length;
};

/// The location of the range if key, domain, bounds and access allow it. False: they do not.
[[nodiscard]] bool locate(Peer& owner, const RangeCheck& range, Location& location) noexcept;
/// The same, for the path that most requests take: nothing of it is in memory there.
[[gnu::always_inline]] inline bool locate_here(Peer& owner, const RangeCheck& range,
                                               Location& location) noexcept {
  const std::uint32_t index = range.key >> 8;
  if (index >= kRegions || range.key == 0) return false;
  const SharedRegion& region = owner.region(index);
  if (region.key.load(std::memory_order_acquire) != range.key || region.domain != range.domain ||
      (region.access & range.access) != range.access)
    return false;
  // Each number is read once: a scribbling peer may change it between two looks.
  const std::uint64_t base = region.base;
  const std::uint64_t length = region.length;
  const std::uint64_t offset = range.address - base;
  if (range.address < base || offset > length || range.length > length - offset) return false;
  location.owner = &owner;
  location.address = region.address + offset;
  const std::uint32_t object = region.object;
  location.shared_object = object != 0;
  if (owner.is_self()) {
    location.direct = reinterpret_cast<std::byte*>(location.address);
    return true;
  }
  if (object == 0 || object > kMemoryObjects) return true;
  if (std::byte* const mapped = owner.object(object - 1)) {
    const std::uint64_t at = region.object_offset + offset;
    // The owner's own numbers, but they lie where others can write.
    const std::uint64_t bytes = owner.object_bytes(object - 1);
    if (at > bytes || range.length > bytes - at) return false;
    location.direct = mapped + at;
  }
  return true;
}

/// Copies. False: the memory cannot be reached (its owner is gone, or it is unmapped).
[[nodiscard]] bool write_memory(const Engine& engine, const Location& to, const std::byte* from,
                                std::size_t size) noexcept;
[[nodiscard]] bool read_memory(const Engine& engine, const Location& from, std::byte* to,
                               std::size_t size) noexcept;

/// A 64-bit atomic; `compare` and `swap` for compare-and-swap, `add` otherwise. The old value.
struct AtomicWork {
  bool is_swap;
  std::uint64_t compare_add;
  std::uint64_t swap;
};
[[nodiscard]] bool atomic_memory(Engine& engine, const Location& at, const AtomicWork& work,
                                 std::uint64_t& old) noexcept;

}  // namespace verbatim::engine
