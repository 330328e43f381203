// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Registrations of the program's own memory, kept for the next use.
///
///     RegionCache cache{domain};
///     auto image = VERBATIM_TRY(cache.find(pixels));  // a std::shared_ptr<std::vector<std::byte>>
///     auto [back, result] = channel.send(std::move(image)).wait();
///
/// The key is the owner of the memory (the shared_ptr's control block), not its address: an address
/// that was freed and reused is never taken for the old memory. The cache hooks nothing. It notices
/// a container that has moved its elements, and registers it again. It cannot notice a container
/// that freed its memory and got the same address and size again: forget() it before that.
///
/// find() returns an owner. It keeps the memory and the registration alive, even after the cache
/// has dropped them or is destroyed. Other holders of the shared_ptr can still access the memory.
/// While an operation has it, they must not touch it, or must not write to it if it is only sent.
///
/// Ownership: an entry has a weak_ptr; the next registration drops entries whose memory is gone.
///            Until then the pages stay pinned, and the memory of a make_shared allocated.
/// Threads:   one at a time. The owners it returns may go to other threads.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/channel/owner.hpp"
#include "verbatim/verbs/elements.hpp"
#include "verbatim/verbs/memory_region.hpp"
#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim {

/// Beyond these limits the least recently used entry is dropped.
struct RegionCacheOptions {
  std::uint32_t entries = 1024;
  std::uint64_t bytes = std::uint64_t{1} << 30;
};

/// The program's own memory with its registration. If T is const, it can only be sent.
template <class T>
class [[nodiscard]] Registered {
 public:
  Registered(Registered&&) noexcept = default;
  Registered& operator=(Registered&& other) noexcept {
    Registered moved{std::move(other)};
    std::swap(memory_, moved.memory_);
    std::swap(region_, moved.region_);
    std::swap(bytes_, moved.bytes_);
    return *this;
  }
  ~Registered() = default;

  /// Null after a move.
  [[nodiscard]] const std::shared_ptr<T>& get() const noexcept { return memory_; }
  [[nodiscard]] T& operator*() const noexcept { return *memory_; }
  [[nodiscard]] T* operator->() const noexcept { return memory_.get(); }

 private:
  friend class RegionCache;
  friend struct OwnerTraits<Registered>;
  Registered(std::shared_ptr<T> memory, std::shared_ptr<const MemoryRegion> region,
             std::span<std::byte> bytes) noexcept
      : memory_(std::move(memory)), region_(std::move(region)), bytes_(bytes) {}

  [[nodiscard]] std::span<std::byte> part(ByteRange range, std::source_location where) const;

  std::shared_ptr<T> memory_;
  std::shared_ptr<const MemoryRegion> region_;  // After memory_: destroyed before it.
  std::span<std::byte> bytes_;                  ///< As they were registered.
};

class RegionCache {
 public:
  using Where = std::source_location;

  explicit RegionCache(ProtectionDomain domain, const RegionCacheOptions& options = {});

  /// Registers it if necessary. Memory larger than the cache is registered, but not kept.
  template <NamedMemory T>
  [[nodiscard]] Result<Registered<T>> find(std::shared_ptr<T> memory,
                                           Where where = Where::current()) {
    check(memory != nullptr, "RegionCache: there is no memory", where);
    constexpr bool kConst = detail::kIsConstMemory<T>;
    const std::span<std::byte> bytes = bytes_of(*memory);
    for (std::uint32_t at = heads_[place_of(memory.get())]; at != kNone; at = all_[at].next) {
      Entry& entry = all_[at];
      if (entry.object != memory.get() || !entry.is_of(memory)) continue;
      if (entry.bytes.data() != bytes.data() || entry.bytes.size() != bytes.size() ||
          (!kConst && entry.is_read_only)) [[unlikely]] {
        drop(at);  // It has moved, or must become writable.
        break;
      }
      if (at != newest_) touch(at);
      return Registered<T>{std::move(memory), entry.region, bytes};
    }
    auto region = enter(memory.get(), memory, bytes, kConst);
    if (!region) return std::unexpected(region.error());
    return Registered<T>{std::move(memory), *std::move(region), bytes};
  }

  /// The next find() registers it again. Owners that it returned keep their registration.
  template <class T>
  void forget(const std::shared_ptr<T>& memory) noexcept {
    for (std::uint32_t at = heads_[place_of(memory.get())]; at != kNone; at = all_[at].next)
      if (all_[at].object == memory.get() && all_[at].is_of(memory)) return drop(at);
  }
  void clear() noexcept;

  [[nodiscard]] std::uint32_t entries() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return total_bytes_; }

  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;
  ~RegionCache() = default;

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  struct Entry {
    const volatile void* object = nullptr;  ///< Null: this entry is free.
    std::weak_ptr<const volatile void> owner{};
    std::span<std::byte> bytes{};
    std::shared_ptr<const MemoryRegion> region{};
    bool is_read_only = false;
    std::uint32_t next = kNone;   ///< In its chain, or in the free list.
    std::uint32_t newer = kNone;  ///< By the last find().
    std::uint32_t older = kNone;

    template <class T>
    [[nodiscard]] bool is_of(const std::shared_ptr<T>& memory) const noexcept {
      return !owner.owner_before(memory) && !memory.owner_before(owner);
    }
  };

  template <class T>
  static std::span<std::byte> bytes_of(T& memory) noexcept {
    const auto all = std::as_bytes(detail::as_span(memory));
    return {const_cast<std::byte*>(all.data()), all.size()};  // Registered as what it is.
  }
  [[nodiscard]] std::size_t place_of(const volatile void* object) const noexcept {
    constexpr std::uint64_t kGolden = 0x9e37'79b9'7f4a'7c15;
    return static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(object) * kGolden) >> shift_);
  }
  [[nodiscard]] Result<std::shared_ptr<const MemoryRegion>> enter(
      const volatile void* object, std::weak_ptr<const volatile void> owner,
      std::span<std::byte> bytes, bool is_read_only);
  void touch(std::uint32_t at) noexcept;
  void drop(std::uint32_t at) noexcept;
  void link_newest(std::uint32_t at) noexcept;
  void unlink(const Entry& entry) noexcept;

  ProtectionDomain domain_;
  std::uint64_t max_bytes_;
  unsigned shift_;
  std::vector<Entry> all_;
  std::vector<std::uint32_t> heads_;  ///< Heads of the chains.
  std::uint32_t free_ = kNone;
  std::uint32_t newest_ = kNone;
  std::uint32_t oldest_ = kNone;
  std::uint32_t count_ = 0;
  std::uint64_t total_bytes_ = 0;
};

template <class T>
std::span<std::byte> Registered<T>::part(ByteRange range, std::source_location where) const {
  check(memory_ != nullptr, "Channel: the memory was moved away before", where);
  const auto now = std::as_bytes(detail::as_span(*memory_));
  check(now.data() == bytes_.data() && now.size() == bytes_.size(),
        "Channel: the container has moved its elements since RegionCache::find()", where);
  check(range.offset <= bytes_.size(), "Channel: the range is outside of the memory", where);
  const std::span<std::byte> rest = bytes_.subspan(range.offset);
  if (range.length == std::dynamic_extent) return rest;
  check(range.length <= rest.size(), "Channel: the range is outside of the memory", where);
  return rest.first(range.length);
}

template <class T>
struct OwnerTraits<Registered<T>> {
  static constexpr bool kStaysWhenMoved = true;
  static GatherElement gather(const Registered<T>& memory, ByteRange range,
                              std::source_location where) {
    return memory.region_->gather(memory.part(range, where), where);
  }
  static ScatterElement scatter(Registered<T>& memory, ByteRange range, std::source_location where)
    requires(!detail::kIsConstMemory<T>)
  {
    return memory.region_->scatter(memory.part(range, where), where);
  }
  static std::span<const std::byte> bytes(const Registered<T>& memory) { return memory.bytes_; }
};

}  // namespace verbatim
