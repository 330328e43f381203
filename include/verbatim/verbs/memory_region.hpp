// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Registered memory that the region does not own.
///
/// The memory must outlive the region, and an address used through the region must still be the
/// memory that was registered. (`Buffer` owns its memory and has neither duty.)
///
/// Ownership: move-only; keeps its ProtectionDomain alive; deregisters when destroyed.
/// Threads:   gather() and scatter() from any thread.
/// Hot path:  gather() and scatter() are one subtraction and a few compares.
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <source_location>
#include <span>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/verbs/access.hpp"
#include "verbatim/verbs/elements.hpp"
#include "verbatim/verbs/remote_memory.hpp"

namespace verbatim {

namespace detail {
struct Raw;
struct RegionState;
}  // namespace detail

class MemoryRegion {
 public:
  using Where = std::source_location;

  /// The start of the region, as work requests name it: the memory's address, or a dmabuf's iova.
  [[nodiscard]] std::uint64_t address() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t length() const noexcept { return length_; }
  [[nodiscard]] AccessFlags access() const noexcept { return access_; }
  /// Whether the whole range lies inside. Safe against overflow.
  [[nodiscard]] bool encloses(const void* address, std::size_t size) const noexcept {
    return inside(reinterpret_cast<std::uintptr_t>(address) - base_, size, length_);
  }

  /// Gives the region other rights without registering it again: pages stay pinned. The keys may
  /// change, so do not use elements and remote regions that were made before; no request may be
  /// using them. Only the rights change. Not every device supports this (`unsupported`). After any
  /// other failure the region may be unusable: destroy it.
  [[nodiscard]] Result<void> reregister(AccessFlags access);

  /// What a peer needs to reach this memory; an error if the region has no remote right.
  [[nodiscard]] Result<RemoteMemoryRegion> remote() const noexcept;

  // Memory that a request reads: a container, one object, or a span. Memory outside the region is a
  // programming error; this is always checked.
  template <NamedMemory R>
  [[nodiscard]] VERBATIM_HOT GatherElement gather(R& x VERBATIM_LIFETIMEBOUND,
                                                  Where where = Where::current()) const {
    return checked<GatherElement>(bytes_of(x), max_gather_, "gather(): outside the region", where);
  }
  template <class T, std::size_t N>
  [[nodiscard]] VERBATIM_HOT GatherElement gather(std::span<T, N> x VERBATIM_LIFETIMEBOUND,
                                                  Where where = Where::current()) const {
    return checked<GatherElement>(bytes_of(x), max_gather_, "gather(): outside the region", where);
  }
  template <DyingMemory R>
  GatherElement gather(R&&) const {
    static_assert(!DyingMemory<R>,
                  "verbatim: gather() of a temporary: it would die before the device reads it; "
                  "name it first");
    std::unreachable();
  }

  // Memory that a request fills.
  template <NamedMemory R>
  [[nodiscard]] VERBATIM_HOT ScatterElement scatter(R& x VERBATIM_LIFETIMEBOUND,
                                                    Where where = Where::current()) const {
    refuse_const<std::remove_reference_t<R>>();
    return checked<ScatterElement>(bytes_of(x), max_scatter_,
                                   "scatter(): outside the region, or the region is read-only",
                                   where);
  }
  template <class T, std::size_t N>
  [[nodiscard]] VERBATIM_HOT ScatterElement scatter(std::span<T, N> x VERBATIM_LIFETIMEBOUND,
                                                    Where where = Where::current()) const {
    refuse_const<std::span<T>>();
    return checked<ScatterElement>(bytes_of(x), max_scatter_,
                                   "scatter(): outside the region, or the region is read-only",
                                   where);
  }
  template <DyingMemory R>
  ScatterElement scatter(R&&) const {
    static_assert(!DyingMemory<R>,
                  "verbatim: scatter() into a temporary: it would die before the device fills it; "
                  "name it first");
    std::unreachable();
  }

  // The same, but a violation is an error: for bounds that come from input.
  template <class R>
    requires ByteLikeRange<R> || ByteLikeObject<std::remove_reference_t<R>>
  [[nodiscard]] Result<GatherElement> try_gather(R&& x VERBATIM_LIFETIMEBOUND) const {
    static_assert(!DyingMemory<R>, "verbatim: try_gather() of a temporary: name it first");
    return tried<GatherElement>(bytes_of(x), length_, "gather");
  }
  template <class T, std::size_t N>
  [[nodiscard]] Result<GatherElement> try_gather(std::span<T, N> x VERBATIM_LIFETIMEBOUND) const {
    return tried<GatherElement>(bytes_of(x), length_, "gather");
  }
  template <class R>
    requires ByteLikeRange<R> || ByteLikeObject<std::remove_reference_t<R>>
  [[nodiscard]] Result<ScatterElement> try_scatter(R&& x VERBATIM_LIFETIMEBOUND) const {
    static_assert(!DyingMemory<R>, "verbatim: try_scatter() into a temporary: name it first");
    refuse_const<std::remove_reference_t<R>>();
    return tried<ScatterElement>(bytes_of(x), writable_length(), "scatter");
  }
  template <class T, std::size_t N>
  [[nodiscard]] Result<ScatterElement> try_scatter(std::span<T, N> x VERBATIM_LIFETIMEBOUND) const {
    refuse_const<std::span<T>>();
    return tried<ScatterElement>(bytes_of(x), writable_length(), "scatter");
  }

  // The caller has proved the bounds, and that the length fits 32 bits. Only the device checks
  // after that.
  template <class T, std::size_t N>
  [[nodiscard]] GatherElement gather_unchecked(std::span<T, N> x) const noexcept {
    return element<GatherElement>(bytes_of(x));
  }
  template <class T, std::size_t N>
  [[nodiscard]] ScatterElement scatter_unchecked(std::span<T, N> x) const noexcept {
    refuse_const<std::span<T>>();
    return element<ScatterElement>(bytes_of(x));
  }

  // By offset into the region, for memory that this process has not mapped (a GPU's dmabuf).
  [[nodiscard]] Result<GatherElement> gather_at(std::uint64_t offset, std::uint64_t size) const {
    return tried<GatherElement>({base_ + offset, size}, length_, "gather_at");
  }
  [[nodiscard]] Result<ScatterElement> scatter_at(std::uint64_t offset, std::uint64_t size) const {
    return tried<ScatterElement>({base_ + offset, size}, writable_length(), "scatter_at");
  }

  MemoryRegion(MemoryRegion&&) noexcept;
  MemoryRegion& operator=(MemoryRegion&&) noexcept;
  ~MemoryRegion();

 private:
  friend class ProtectionDomain;
  friend struct detail::Raw;
  static constexpr std::uint64_t kMaxElement = std::numeric_limits<std::uint32_t>::max();
  struct Range {
    std::uint64_t address;
    std::uint64_t size;
  };

  MemoryRegion(std::shared_ptr<detail::RegionState> state, std::uint64_t base, std::uint64_t length,
               AccessFlags access) noexcept;

  template <class R>
  static constexpr void refuse_const() noexcept {
    static_assert(!detail::kIsConstMemory<R>,
                  "verbatim: scatter() into const memory: the device writes there");
  }
  template <class R>
  static Range bytes_of(R& x) noexcept {
    // Not through a span, or g++ would lose track of whose address it is.
    if constexpr (std::ranges::range<R>) {
      const auto size = std::ranges::size(x) * sizeof(std::ranges::range_value_t<R>);
      return {reinterpret_cast<std::uintptr_t>(std::ranges::data(x)), size};
    } else {
      return {reinterpret_cast<std::uintptr_t>(std::addressof(x)), sizeof(R)};
    }
  }
  /// An address below the base wraps to a huge offset, so one compare covers both ends.
  static bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t length) noexcept {
    return offset <= length && size <= length - offset;
  }
  template <class Element>
  [[nodiscard]] Element element(Range range) const noexcept {
    return Element{ibv_sge{range.address, static_cast<std::uint32_t>(range.size), key_}};
  }
  /// `max_size` is at most length_, so the difference below does not wrap. Two compares check both
  /// ends and the 32 bits.
  template <class Element>
  [[nodiscard]] VERBATIM_HOT Element checked(Range range, std::uint64_t max_size, const char* what,
                                             Where where) const {
    if (range.size > max_size || range.address - base_ > length_ - range.size) [[unlikely]]
      violated(what, range.size, where);
    return element<Element>(range);
  }
  template <class Element>
  [[nodiscard]] Result<Element> tried(Range range, std::uint64_t length,
                                      const char* operation) const {
    if (range.size > kMaxElement)
      return std::unexpected(Error{.code = Errc::limit_exceeded,
                                   .operation = operation,
                                   .field = "length",
                                   .value = range.size,
                                   .limit = kMaxElement});
    if (!inside(range.address - base_, range.size, length))
      return std::unexpected(outside(operation, range, length));
    return element<Element>(range);
  }
  [[nodiscard]] std::uint64_t writable_length() const noexcept {
    return max_scatter_ != 0 ? length_ : 0;
  }
  [[noreturn]] VERBATIM_COLD void violated(const char* what, std::uint64_t size, Where where) const;
  VERBATIM_COLD Error outside(const char* operation, Range range,
                              std::uint64_t length) const noexcept;

  std::uint64_t base_;
  std::uint64_t length_;
  std::uint64_t max_gather_;  ///< The longest element: length_, or the most that 32 bits hold.
  std::uint64_t
      max_scatter_;  ///< The same, or 0 if the device may not write: then no element fits.
  std::uint32_t key_;
  AccessFlags access_;
  std::shared_ptr<detail::RegionState> state_;  ///< Shared only if a pool cut up the region.
};

}  // namespace verbatim
