// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Reaching registered memory: who may touch it, and how it is copied from here.
///
/// Owns nothing. Called by the thread that runs a request, under its queue pair's lock and from
/// inside the responder's queue pair. locate_here() is hot and takes no lock. Copies through the
/// owner may wait for it (relay.hpp). Atomics on memory that is in no object take the owner's
/// `atomics` lock (tagged, with a bound; inside it there are system calls, but no other lock).
///
/// Atomics are atomic whatever path each requester uses. On a word in a memory object all of them
/// are processor atomics, done by a requester that maps the object, or else by the owner. On any
/// other word all of them, including those of the owner's threads, run under the owner's lock.
#include <chrono>
#include <cstdint>

#include "soft/memory/location.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/peer.hpp"

namespace verbatim::engine {

class Engine;

/// Whether two regions have memory in common. One that is gone has none.
[[nodiscard]] inline bool overlap(const SharedRegion& one, const SharedRegion& other) noexcept {
  return one.key.load(std::memory_order_acquire) != 0 &&
         one.address < other.address + other.length && other.address < one.address + one.length;
}

/// What a request wants to do with a range.
struct RangeCheck {
  std::uint32_t key;
  std::uint32_t domain;
  std::uint32_t access;  ///< All of these bits are needed.
  std::uint64_t address;
  std::uint64_t length;
};

/// The location of the range if key, domain, bounds and access allow it; else false.
[[nodiscard]] bool locate(Peer& owner, const RangeCheck& range, Location& location) noexcept;
/// The same, for the path that most requests take: there, none of it is in memory.
[[gnu::always_inline]] inline bool locate_here(Peer& owner, const RangeCheck& range,
                                               Location& location) noexcept {
  const std::uint32_t index = region_index(range.key);
  // Beyond what is backed, a full /dev/shm gives SIGBUS.
  if (index >= owner.region_count() || range.key == 0) return false;
  const SharedRegion& region = owner.region(index);
  if (region.key.load(std::memory_order_acquire) != range.key || region.domain != range.domain ||
      (region.access & range.access) != range.access)
    return false;
  // Each number is read once: a hostile peer may change it between two reads.
  const std::uint64_t base = region.base;
  const std::uint64_t length = region.length;
  const std::uint64_t offset = range.address - base;
  if (range.address < base || offset > length || range.length > length - offset) return false;
  location.owner = &owner;
  location.address = region.address + offset;
  location.key = range.key;
  const std::uint32_t object = region.object;
  location.object = object;
  if (owner.is_self()) {
    location.direct = reinterpret_cast<std::byte*>(location.address);
    return true;
  }
  if (object == 0 || object > kMemoryObjects) return true;
  if (const Window* const window = owner.window(object - 1)) {
    const std::uint64_t at = region.object_offset + offset;
    // The owner's own numbers, but it may lie.
    if (at > window->bytes || range.length > window->bytes - at) return false;
    location.direct = window->address + at;
  }
  return true;
}

/// Our own memory, for a request that the helper serves: by its address here, and by its key as it
/// was registered.
[[nodiscard]] bool locate_served(Engine& engine, std::uint32_t key, std::uint64_t address,
                                 std::uint64_t length, bool writes, Location& location) noexcept;

/// Copies. `no`: the memory cannot be reached (its owner is gone, or it is unmapped).
[[nodiscard]] Copied write_memory(Engine& engine, const Location& to, const std::byte* from,
                                  std::size_t size) noexcept;
[[nodiscard]] Copied read_memory(Engine& engine, const Location& from, std::byte* to,
                                 std::size_t size) noexcept;

/// How long an atomic waits for its lock: longer than any running holder takes.
inline constexpr std::chrono::milliseconds kAtomicsPatience{50};
/// A 64-bit atomic; `compare` and `swap` for compare-and-swap, `add` otherwise. Returns the old
/// value.
struct AtomicWork {
  bool is_swap;
  std::uint64_t compare_add;
  std::uint64_t swap;
};
[[nodiscard]] Copied atomic_memory(Engine& engine, const Location& at, const AtomicWork& work,
                                   std::uint64_t& old) noexcept;

}  // namespace verbatim::engine
