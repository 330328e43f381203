// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Memory of a peer: address, length and key as plain data, or with type and rights as well.
///
/// Peers exchange a `RemoteMemoryRegion`. A `RemoteSpan<T, A>` is the same with elements of type T
/// and the rights A: an operation that the rights do not allow does not compile. Bounds are checked
/// here, and again when a request is posted.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "verbatim/base/check.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"
#include "verbatim/verbs/access.hpp"

namespace verbatim {

/// Types that mean the same on both sides if the layout is the same.
template <class T>
concept RemoteLayout = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>;

/// The offset of a member. Both compilers represent a pointer to a data member as its offset.
template <class Class, class Member>
[[nodiscard]] std::uint64_t offset_of(Member Class::* member) noexcept {
  static_assert(RemoteLayout<Class> && sizeof(member) == sizeof(std::ptrdiff_t));
  return static_cast<std::uint64_t>(std::bit_cast<std::ptrdiff_t>(member));
}

struct RemoteMemoryRegion {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  RemoteKey key{};

  /// `size` bytes from `offset` on, or nothing if they are not inside.
  [[nodiscard]] constexpr std::optional<RemoteMemoryRegion> sub_region(
      std::uint64_t offset, std::uint64_t size) const noexcept {
    if (offset > length || size > length - offset) return std::nullopt;
    if (offset > std::numeric_limits<std::uint64_t>::max() - address) return std::nullopt;
    return RemoteMemoryRegion{address + offset, size, key};
  }
  /// Everything after `offset`.
  [[nodiscard]] constexpr std::optional<RemoteMemoryRegion> sub_region(
      std::uint64_t offset) const noexcept {
    if (offset > length) return std::nullopt;
    return sub_region(offset, length - offset);
  }
  /// The caller has proved that `offset` is inside.
  [[nodiscard]] constexpr RemoteMemoryRegion sub_region_unchecked(
      std::uint64_t offset) const noexcept {
    return {address + offset, length - offset, key};
  }

  /// Element `index` of an array of T that starts here: exactly its bytes.
  template <RemoteLayout T>
  [[nodiscard]] constexpr std::optional<RemoteMemoryRegion> array_element(
      std::uint64_t index) const noexcept {
    if (index > length / sizeof(T)) return std::nullopt;  // Also keeps the product in range.
    return sub_region(index * sizeof(T), sizeof(T));
  }
  /// A member of a structure that starts here: exactly its bytes.
  template <class Class, class Member>
  [[nodiscard]] std::optional<RemoteMemoryRegion> field(Member Class::* member) const noexcept {
    return sub_region(offset_of(member), sizeof(Member));
  }
  /// A member of element `index` of an array of structures that starts here.
  template <class Class, class Member>
  [[nodiscard]] std::optional<RemoteMemoryRegion> array_field(
      std::uint64_t index, Member Class::* member) const noexcept {
    const auto element = array_element<Class>(index);
    return element ? element->field(member) : std::nullopt;
  }

  template <RemoteLayout T>
  [[nodiscard]] constexpr RemoteMemoryRegion array_element_unchecked(
      std::uint64_t index) const noexcept {
    return {address + index * sizeof(T), sizeof(T), key};
  }
  template <class Class, class Member>
  [[nodiscard]] RemoteMemoryRegion field_unchecked(Member Class::* member) const noexcept {
    return {address + offset_of(member), sizeof(Member), key};
  }
  template <class Class, class Member>
  [[nodiscard]] RemoteMemoryRegion array_field_unchecked(std::uint64_t index,
                                                         Member Class::* member) const noexcept {
    return array_element_unchecked<Class>(index).field_unchecked(member);
  }

  friend bool operator==(const RemoteMemoryRegion&, const RemoteMemoryRegion&) noexcept = default;
};

/// 24 bytes, little-endian; for the caller's own messages.
[[nodiscard]] std::vector<std::byte> encode(const RemoteMemoryRegion& region);
[[nodiscard]] Result<RemoteMemoryRegion> decode_remote_memory(std::span<const std::byte> bytes);
[[nodiscard]] std::string to_json(const RemoteMemoryRegion& region);
[[nodiscard]] Result<RemoteMemoryRegion> remote_memory_from_json(std::string_view json);

/// An index that knows its source line: operator[] takes no default argument.
struct LocatedIndex {
  std::uint64_t value;
  std::source_location where;
  constexpr LocatedIndex(std::uint64_t index,
                         std::source_location caller = std::source_location::current()) noexcept
      : value(index), where(caller) {}
};

template <RemoteLayout T, AccessFlags Rights>
class RemoteSpan;

/// One object of type T at a peer.
template <RemoteLayout T, AccessFlags Rights>
class RemoteRef {
 public:
  [[nodiscard]] const RemoteMemoryRegion& region() const noexcept { return region_; }
  // Not `Member T::*`: that is ill-formed if T is a number.
  template <class Class, RemoteLayout Member>
    requires std::is_base_of_v<Class, T>
  [[nodiscard]] RemoteRef<Member, Rights> field(Member Class::* member) const noexcept {
    return RemoteRef<Member, Rights>{region_.field_unchecked(member)};  // Inside T, by its type.
  }

 private:
  template <RemoteLayout, AccessFlags>
  friend class RemoteSpan;
  template <RemoteLayout, AccessFlags>
  friend class RemoteRef;
  explicit RemoteRef(RemoteMemoryRegion region) noexcept : region_(region) {}
  RemoteMemoryRegion region_;
};

/// An array of T at a peer, with the rights that the peer granted.
template <RemoteLayout T, AccessFlags Rights>
class RemoteSpan {
 public:
  /// As many elements as fit; a rest that is smaller than T is cut off. The caller asserts that the
  /// peer granted these rights; the peer's device checks them at each access.
  [[nodiscard]] static RemoteSpan of(const RemoteMemoryRegion& region) noexcept {
    return RemoteSpan{{region.address, region.length - region.length % sizeof(T), region.key}};
  }
  /// The same memory with fewer rights.
  template <AccessFlags More>
    requires(More.has(Rights))
  RemoteSpan(const RemoteSpan<T, More>& other) noexcept : region_(other.region()) {}

  [[nodiscard]] std::uint64_t size() const noexcept { return region_.length / sizeof(T); }
  [[nodiscard]] const RemoteMemoryRegion& region() const noexcept { return region_; }

  [[nodiscard]] RemoteRef<T, Rights> operator[](LocatedIndex index) const {
    if (index.value >= size()) [[unlikely]]
      contract_violated("RemoteSpan[index]: index beyond the span", index.value, size(),
                        index.where);
    return RemoteRef<T, Rights>{region_.array_element_unchecked<T>(index.value)};
  }
  [[nodiscard]] std::optional<RemoteSpan> subspan(std::uint64_t first,
                                                  std::uint64_t count) const noexcept {
    if (first > size() || count > size() - first) return std::nullopt;
    return RemoteSpan{{region_.address + first * sizeof(T), count * sizeof(T), region_.key}};
  }

 private:
  explicit RemoteSpan(RemoteMemoryRegion region) noexcept : region_(region) {}
  RemoteMemoryRegion region_;
};

/// A 64-bit word of a peer for atomics. It is always aligned.
class RemoteAtomic {
 public:
  /// A bare region is trusted; the peer's device checks it.
  [[nodiscard]] static Result<RemoteAtomic> at(const RemoteMemoryRegion& region,
                                               std::uint64_t offset = 0) noexcept;
  /// An element of a RemoteSpan or one of its fields: the right is in its type.
  template <class T, AccessFlags Rights>
  [[nodiscard]] static Result<RemoteAtomic> at(const RemoteRef<T, Rights>& word) noexcept {
    static_assert(Rights.has(Access::remote_atomic),
                  "verbatim: atomic on remote memory without Access::remote_atomic");
    static_assert(sizeof(T) == 8, "verbatim: atomics work on words of 8 bytes");
    return at(word.region());
  }
  [[nodiscard]] const RemoteMemoryRegion& region() const noexcept { return region_; }

 private:
  explicit RemoteAtomic(RemoteMemoryRegion region) noexcept : region_(region) {}
  RemoteMemoryRegion region_;
};

}  // namespace verbatim
