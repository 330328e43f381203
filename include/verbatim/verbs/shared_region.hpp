// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Memory that peers may read or write at any time. It is a separate type for that reason.
///
/// While it is registered, no deadline and no broken connection stops a peer's access; only
/// destroying the region does. Read what peers write only through `load_acquire`: plain reads race
/// with the device. The order of bytes within one RDMA write is not guaranteed. The portable signal
/// that data has arrived is a write with immediate.
///
/// Ownership: move-only; owns its memory if it allocated it, else borrows it.
/// Threads:   load_acquire and store_release from any thread.
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "verbatim/base/check.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/verbs/memory_region.hpp"

namespace verbatim {

namespace detail {
struct Allocation;
}

/// Words that one instruction reads whole.
template <class T>
concept SharedWord = std::is_trivially_copyable_v<T> && std::atomic_ref<T>::is_always_lock_free;

class SharedRegion {
 public:
  /// For gather() and scatter(): local requests may use it like any other region.
  [[nodiscard]] const MemoryRegion& region() const& VERBATIM_LIFETIMEBOUND { return region_; }
  void region() && = delete;
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }

  /// What peers need to reach it.
  [[nodiscard]] RemoteMemoryRegion remote() const noexcept { return remote_; }
  /// The same with type and rights; asking for a right that the region does not give is a
  /// programming error.
  template <RemoteLayout T, AccessFlags Rights>
  [[nodiscard]] RemoteSpan<T, Rights> remote_span() const {
    check(region_.access().has(Rights), "SharedRegion::remote_span(): right not given");
    return RemoteSpan<T, Rights>::of(remote_);
  }

  /// Reads a word that a peer may be writing; what the peer wrote before it is visible afterwards.
  template <SharedWord T>
  [[nodiscard]] T load_acquire(std::size_t offset) const {
    return std::atomic_ref<T>{word<T>(offset)}.load(std::memory_order_acquire);
  }
  /// Writes a word that a peer may be reading.
  template <SharedWord T>
  void store_release(std::size_t offset, T value) {
    std::atomic_ref<T>{word<T>(offset)}.store(value, std::memory_order_release);
  }
  /// For times when no peer writes. The caller must know that, from a completion or a barrier.
  [[nodiscard]] std::span<std::byte> quiescent_bytes() & VERBATIM_LIFETIMEBOUND { return bytes_; }

  SharedRegion(SharedRegion&&) noexcept;
  SharedRegion& operator=(SharedRegion&&) noexcept;
  ~SharedRegion();

 private:
  friend class ProtectionDomain;
  SharedRegion(std::unique_ptr<detail::Allocation> memory, std::span<std::byte> bytes,
               MemoryRegion region, RemoteMemoryRegion remote) noexcept;

  template <class T>
  [[nodiscard]] T& word(std::size_t offset) const {
    check(offset <= bytes_.size() && sizeof(T) <= bytes_.size() - offset,
          "SharedRegion: word outside the region");
    auto* const address = bytes_.data() + offset;
    check(reinterpret_cast<std::uintptr_t>(address) % std::atomic_ref<T>::required_alignment == 0,
          "SharedRegion: word not aligned");
    return *reinterpret_cast<T*>(address);
  }

  std::unique_ptr<detail::Allocation> memory_;  // Null if borrowed. Before region_: see Buffer.
  std::span<std::byte> bytes_;
  MemoryRegion region_;
  RemoteMemoryRegion remote_;
};

}  // namespace verbatim
