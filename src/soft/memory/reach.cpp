// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/memory/reach.hpp"

#include "soft/memory/copy.hpp"
#include "soft/memory/process_copy.hpp"
#include "soft/memory/relay.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/tagged_lock.hpp"

namespace verbatim::engine {

bool locate(Peer& owner, const RangeCheck& range, Location& location) noexcept {
  return locate_here(owner, range, location);
}

bool write_memory(const Engine& engine, const Location& to, const std::byte* from,
                  std::size_t size) noexcept {
  if (to.direct != nullptr) [[likely]] {
    copy_last_word_last(to.direct, from, size);
    return true;
  }
  if (size == 0) return true;
  if (to.owner->memory_path() == MemoryPath::process) return write_process(to, from, size);
  return relay_write(engine, *to.owner, to.address, from, size);
}

bool read_memory(const Engine& engine, const Location& from, std::byte* to,
                 std::size_t size) noexcept {
  if (from.direct != nullptr) [[likely]] {
    copy_last_word_last(to, from.direct, size);
    return true;
  }
  if (size == 0) return true;
  if (from.owner->memory_path() == MemoryPath::process) return read_process(from, to, size);
  return relay_read(engine, *from.owner, from.address, to, size);
}

bool atomic_memory(Engine& engine, const Location& at, const AtomicWork& work,
                   std::uint64_t& old) noexcept {
  if (at.direct != nullptr && at.shared_object) {
    old = work.is_swap ? atomic_compare_swap(at.direct, work.compare_add, work.swap)
                       : atomic_fetch_add(at.direct, work.compare_add);
    return true;
  }
  // Memory that not every process maps: read, change, write under the owner's lock. Its owner's
  // own requests take the same way, so that all of them see each other.
  Word& lock = at.owner->segment().atomics;
  if (acquire(lock, engine.tag(), engine.peers()) == Acquired::no) return false;
  auto* const bytes = reinterpret_cast<std::byte*>(&old);
  bool done = read_memory(engine, at, bytes, sizeof old);
  if (done && (!work.is_swap || old == work.compare_add)) {
    const std::uint64_t updated = work.is_swap ? work.swap : old + work.compare_add;
    done = write_memory(engine, at, reinterpret_cast<const std::byte*>(&updated), sizeof updated);
  }
  release(lock);
  return done;
}

}  // namespace verbatim::engine
