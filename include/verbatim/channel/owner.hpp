// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Owners: objects that keep registered memory alive for an owned operation.
///
/// | owner                           | its memory                  | is sent | is filled  |
/// |---------------------------------|-----------------------------|---------|------------|
/// | `Buffer`                        | its bytes, or a ByteRange   | yes     | yes        |
/// | `std::shared_ptr<const Buffer>` | the same, for many at once  | yes     | no         |
/// | `std::array<Owner, N>`          | of N owners, as one message | yes     | as they do |
/// | `NoMemory`                      | none                        | yes     | yes        |
///
/// Const, because other holders of a `std::shared_ptr<Buffer>` could write what the device reads. A
/// type of your own becomes an owner if you specialize OwnerTraits:
///
///     template <>
///     struct verbatim::OwnerTraits<Frame> {
///       static constexpr bool kStaysWhenMoved = true;
///       static GatherElement gather(const Frame& frame, ByteRange range, std::source_location);
///       static ScatterElement scatter(Frame& frame, ByteRange range, std::source_location);
///       static std::span<const std::byte> bytes(const Frame& frame);
///     };
///
/// `kStaysWhenMoved` asserts that moving the owner leaves the memory where it is. An owner without
/// `scatter` shares its memory: it cannot receive. `bytes` is for Completed::received(), and can be
/// left out. An owner of several pieces takes no range, returns arrays of elements, and has no
/// `bytes`.
#include <array>
#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/verbs/buffer.hpp"
#include "verbatim/verbs/elements.hpp"

namespace verbatim {

/// Which bytes of an owner an operation uses.
struct ByteRange {
  std::size_t offset = 0;
  std::size_t length = std::dynamic_extent;  ///< Default: to the end.
  [[nodiscard]] bool is_all() const noexcept {
    return length == std::dynamic_extent && offset == 0;
  }
};

/// An owner of nothing, for messages that are only an immediate: `receive(NoMemory{})`.
struct NoMemory {};

/// How to make elements from an owner.
template <class Owner>
struct OwnerTraits;

/// An owner whose memory is one piece, of which a range can be used.
template <class T>
concept RangedOwner = requires(const T& owner, ByteRange range, std::source_location where) {
  OwnerTraits<T>::gather(owner, range, where);
};
/// An owner whose memory is used whole, in one or several pieces.
template <class T>
concept WholeOwner =
    requires(const T& owner, std::source_location where) { OwnerTraits<T>::gather(owner, where); };
template <class T>
concept MemoryOwner = RangedOwner<T> || WholeOwner<T>;

namespace detail {

template <class T>
concept FillableOwner = requires(T& owner, ByteRange range, std::source_location where) {
  OwnerTraits<T>::scatter(owner, range, where);
} || requires(T& owner, std::source_location where) { OwnerTraits<T>::scatter(owner, where); };

/// What every owner must be.
template <MemoryOwner Owner>
struct OwnerRules {
  static_assert(std::is_nothrow_move_constructible_v<Owner> &&
                    std::is_nothrow_destructible_v<Owner>,
                "verbatim: an owner is moved into its operation and back: its move and its "
                "destructor must be noexcept");
  static_assert(OwnerTraits<Owner>::kStaysWhenMoved,
                "verbatim: the memory of an owner must stay where it is when the owner is moved: "
                "the device has its address");
  static constexpr bool kKept = true;
};
/// What an owner that is filled must also be.
template <MemoryOwner Owner>
struct FillableOwnerRules : OwnerRules<Owner> {
  static_assert(FillableOwner<Owner>,
                "verbatim: this owner shares its memory (its OwnerTraits have no scatter): it can "
                "be sent or written, but nothing can be received or read into it");
};

VERBATIM_HOT void check_unseen(const Buffer& buffer, std::source_location where) {
  check(static_cast<bool>(buffer), "Channel: the buffer was moved away before", where);
  check(!buffer.is_seen(), "Channel: the buffer is posted while with() looks at it", where);
}
VERBATIM_HOT GatherElement gather_part(const Buffer& buffer, ByteRange range,
                                       std::source_location where) {
  return range.is_all() ? buffer.gather(where) : buffer.gather(range.offset, range.length, where);
}

}  // namespace detail

template <>
struct OwnerTraits<Buffer> {
  static constexpr bool kStaysWhenMoved = true;
  VERBATIM_HOT static GatherElement gather(const Buffer& buffer, ByteRange range,
                                           std::source_location where) {
    detail::check_unseen(buffer, where);
    return detail::gather_part(buffer, range, where);
  }
  VERBATIM_HOT static ScatterElement scatter(Buffer& buffer, ByteRange range,
                                             std::source_location where) {
    detail::check_unseen(buffer, where);
    return range.is_all() ? buffer.scatter(where)
                          : buffer.scatter(range.offset, range.length, where);
  }
  static std::span<const std::byte> bytes(const Buffer& buffer) { return buffer.bytes(); }
};

/// Others may read it meanwhile, even in other threads, so views are not checked.
template <>
struct OwnerTraits<std::shared_ptr<const Buffer>> {
  static constexpr bool kStaysWhenMoved = true;
  VERBATIM_HOT static GatherElement gather(const std::shared_ptr<const Buffer>& buffer,
                                           ByteRange range, std::source_location where) {
    check(buffer != nullptr && static_cast<bool>(*buffer), "Channel: there is no buffer to send",
          where);
    return detail::gather_part(*buffer, range, where);
  }
};

template <RangedOwner Owner, std::size_t N>
struct OwnerTraits<std::array<Owner, N>> {
  static constexpr bool kStaysWhenMoved = OwnerTraits<Owner>::kStaysWhenMoved;
  static std::array<GatherElement, N> gather(const std::array<Owner, N>& owners,
                                             std::source_location where) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<GatherElement, N>{OwnerTraits<Owner>::gather(owners[I], {}, where)...};
    }(std::make_index_sequence<N>{});
  }
  static std::array<ScatterElement, N> scatter(std::array<Owner, N>& owners,
                                               std::source_location where)
    requires detail::FillableOwner<Owner>
  {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<ScatterElement, N>{OwnerTraits<Owner>::scatter(owners[I], {}, where)...};
    }(std::make_index_sequence<N>{});
  }
};

template <>
struct OwnerTraits<NoMemory> {
  static constexpr bool kStaysWhenMoved = true;
  static std::array<GatherElement, 0> gather(const NoMemory&, std::source_location) { return {}; }
  static std::array<ScatterElement, 0> scatter(NoMemory&, std::source_location) { return {}; }
};

}  // namespace verbatim
