// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/reach.hpp"

#include "soft/memory/copy.hpp"
#include "soft/memory/memory_object.hpp"
#include "soft/memory/process_copy.hpp"
#include "soft/memory/relay.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {
namespace {

/// Whether atomics on this memory of ours use the processor's atomic instructions.
bool is_in_object(Engine& engine, const Location& own) noexcept {
  if (own.object != kPartlyObject) return own.object != 0;
  return engine.objects().find(own.address, sizeof(std::uint64_t)).object != 0;
}

std::uint64_t atomic_here(std::byte* word, const AtomicWork& work) noexcept {
  return work.is_swap ? atomic_compare_swap(word, work.compare_add, work.swap)
                      : atomic_fetch_add(word, work.compare_add);
}

/// For memory in no object: reads, changes and writes the word under the owner's lock. Requests of
/// the owner itself take the same lock, so that all of these atomics exclude each other.
Copied atomic_under_lock(Engine& engine, const Location& at, const AtomicWork& work,
                         std::uint64_t& old) noexcept {
  const TaggedGuard guard{at.owner->segment().atomics, engine.tag(), engine.peers(),
                          LockRank::atomics, kAtomicsPatience};
  if (!guard) return Copied::not_now;
  auto* const bytes = reinterpret_cast<std::byte*>(&old);
  Copied done = read_memory(engine, at, bytes, sizeof old);
  if (done == Copied::yes && (!work.is_swap || old == work.compare_add)) {
    const std::uint64_t updated = work.is_swap ? work.swap : old + work.compare_add;
    done = write_memory(engine, at, reinterpret_cast<const std::byte*>(&updated), sizeof updated);
  }
  return done;
}

}  // namespace

bool locate(Peer& owner, const RangeCheck& range, Location& location) noexcept {
  return locate_here(owner, range, location);
}

bool locate_served(Engine& engine, std::uint32_t key, std::uint64_t address, std::uint64_t length,
                   bool writes, Location& location) noexcept {
  const SharedRegion& region = engine.own().trusted_regions()[region_index(key)];
  if (key == 0 || region.key.load(std::memory_order_acquire) != key) return false;
  if (writes && (region.access & IBV_ACCESS_LOCAL_WRITE) == 0) return false;
  const std::uint64_t offset = address - region.address;
  if (address < region.address || offset > region.length || length > region.length - offset)
    return false;
  location = {.direct = reinterpret_cast<std::byte*>(address),
              .address = address,
              .owner = &engine.peers().self(),
              .object = region.object,
              .key = key};
  return true;
}

Copied write_memory(Engine& engine, const Location& to, const std::byte* from,
                    std::size_t size) noexcept {
  if (to.direct != nullptr) [[likely]] {
    copy_last_word_last(to.direct, from, size);
    return Copied::yes;
  }
  if (size == 0) return Copied::yes;
  if (to.owner->memory_path() == MemoryPath::process) return write_process(to, from, size);
  return relay_write(engine, to, from, size);
}

Copied read_memory(Engine& engine, const Location& from, std::byte* to, std::size_t size) noexcept {
  if (from.direct != nullptr) [[likely]] {
    copy_last_word_last(to, from.direct, size);
    return Copied::yes;
  }
  if (size == 0) return Copied::yes;
  if (from.owner->memory_path() == MemoryPath::process) return read_process(from, to, size);
  return relay_read(engine, from, to, size);
}

Copied atomic_memory(Engine& engine, const Location& at, const AtomicWork& work,
                     std::uint64_t& old) noexcept {
  const bool is_own = at.owner->is_self();
  if (is_own ? is_in_object(engine, at) : at.direct != nullptr) {
    old = atomic_here(at.direct, work);
    return Copied::yes;
  }
  // The memory lies in an object that we cannot map, or partly in one, or we reach the owner's
  // memory only through the owner. In all these cases only the owner can do the atomic.
  if (!is_own && (at.object != 0 || at.owner->memory_path() == MemoryPath::relay))
    return relay_atomic(engine, at, work, old);
  return atomic_under_lock(engine, at, work, old);
}

}  // namespace verbatim::engine
