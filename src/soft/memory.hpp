// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Registered memory: who may touch it, and how to reach it from here.
#include <infiniband/verbs.h>

#include <cstdint>

#include "soft/layout.hpp"
#include "soft/peers.hpp"

namespace verbatim::engine {

class Engine;
struct Domain;
struct Region;

/// A range of registered memory, reachable one way or another.
struct Location {
  std::byte* direct = nullptr;  ///< In our address space; else by the peer's memory path.
  std::uint64_t address = 0;    ///< In the owner's.
  Peer* owner = nullptr;
  bool shared_object = false;  ///< In a memory object: atomics work on it from any process.
};

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

/// Memory in an object that peers can map. nullptr with errno.
void* allocate_object(Engine& engine, std::size_t bytes, bool huge_pages) noexcept;
int free_object(Engine& engine, void* address, std::size_t bytes) noexcept;

/// Whether the range lies in one of our own regions, by its address here.
[[nodiscard]] bool is_registered(Engine& engine, std::uint64_t address,
                                 std::uint64_t length) noexcept;

/// Control verbs.
ibv_mr* register_memory(ibv_pd* domain, void* address, std::size_t length, std::uint64_t base,
                        unsigned access) noexcept;
/// As ibv_rereg_mr: what `flags` names is changed; a region that moves gets new keys. Not 0: errno
/// says why; all that can be refused is refused before anything changes, so the region is as it was
/// (IBV_REREG_MR_ERR_INPUT).
int reregister_memory(ibv_mr* region, int flags, ibv_pd* domain, void* address, std::size_t length,
                      int access) noexcept;
int deregister_memory(ibv_mr* region) noexcept;

}  // namespace verbatim::engine
