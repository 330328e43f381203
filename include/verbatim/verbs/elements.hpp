// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Pieces of registered memory that one work request reads (gather) or fills (scatter).
///
/// The region that contains the memory makes the element (`region.gather(x)`) and checks the
/// bounds; this is the only safe way to get one. An element is laid out as `ibv_sge`, so a list of
/// elements goes to the device as it is. A gather element can be copied, because many may read. A
/// scatter element cannot, because only one may write.
#include <infiniband/verbs.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "verbatim/base/annotations.hpp"

namespace verbatim {

class Buffer;
class MemoryRegion;

class GatherElement {
 public:
  [[nodiscard]] std::uint32_t size_bytes() const noexcept { return sge_.length; }

 private:
  friend class MemoryRegion;
  friend class Buffer;
  explicit constexpr GatherElement(ibv_sge sge) noexcept : sge_(sge) {}
  ibv_sge sge_;
};

class ScatterElement {
 public:
  ScatterElement(ScatterElement&&) noexcept = default;
  ScatterElement& operator=(ScatterElement&&) noexcept = default;
  ScatterElement(const ScatterElement&) = delete;
  ScatterElement& operator=(const ScatterElement&) = delete;
  ~ScatterElement() = default;
  [[nodiscard]] std::uint32_t size_bytes() const noexcept { return sge_.length; }

 private:
  friend class MemoryRegion;
  friend class Buffer;
  explicit constexpr ScatterElement(ibv_sge sge) noexcept : sge_(sge) {}
  ibv_sge sge_;
};
static_assert(sizeof(GatherElement) == sizeof(ibv_sge) &&
              sizeof(ScatterElement) == sizeof(ibv_sge));

/// The elements of one request: N of them held by value, or (`std::dynamic_extent`) a borrowed
/// list, which must outlive the call that posts it.
template <class Element, std::size_t N>
class ElementList {
 public:
  ElementList(std::array<Element, N> elements) noexcept : elements_(std::move(elements)) {}
  ElementList(Element element) noexcept
    requires(N == 1)
      : elements_{std::move(element)} {}
  [[nodiscard]] static constexpr std::size_t size() noexcept { return N; }
  [[nodiscard]] const Element* data() const noexcept { return elements_.data(); }

 private:
  std::array<Element, N> elements_;
};

template <class Element>
class ElementList<Element, 0> {
 public:
  [[nodiscard]] static constexpr std::size_t size() noexcept { return 0; }
  [[nodiscard]] const Element* data() const noexcept { return nullptr; }
};

template <class Element>
class ElementList<Element, std::dynamic_extent> {
 public:
  ElementList(std::span<const Element> elements) noexcept : elements_(elements) {}
  /// Any named list, such as a vector.
  template <std::ranges::contiguous_range R>
    requires std::same_as<std::ranges::range_value_t<R>, Element>
  ElementList(R& elements) noexcept : elements_(elements) {}
  [[nodiscard]] std::size_t size() const noexcept { return elements_.size(); }
  [[nodiscard]] const Element* data() const noexcept { return elements_.data(); }

 private:
  std::span<const Element> elements_;
};

/// Memory that can be given to a device: contiguous, of a trivially copyable type.
template <class R>
concept ByteLikeRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                        std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;

/// One object that can be copied as bytes. A pointer is excluded: its bytes mean nothing elsewhere.
template <class T>
concept ByteLikeObject =
    std::is_object_v<T> && std::is_trivially_copyable_v<T> && !std::ranges::range<T> &&
    !std::is_pointer_v<T> && !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T> &&
    !std::same_as<std::remove_cv_t<T>, GatherElement>;

/// A container named by an lvalue, not a view: its contents live as long as the name.
template <class R>
concept NamedContainer = ByteLikeRange<R> && !std::ranges::borrowed_range<std::remove_cv_t<R>>;

/// A temporary container: its memory would be gone before the device touches it.
template <class R>
concept DyingContainer = ByteLikeRange<R> && !std::is_lvalue_reference_v<R> &&
                         !std::ranges::borrowed_range<std::remove_cvref_t<R>>;

/// A container or one object, named by an lvalue.
template <class R>
concept NamedMemory = NamedContainer<R> || ByteLikeObject<R>;

/// A container or one object that is a temporary.
template <class R>
concept DyingMemory = DyingContainer<R> || (!std::is_lvalue_reference_v<R> &&
                                            ByteLikeObject<std::remove_reference_t<R>>);

namespace detail {

/// One object as a span of itself; a container as it is.
template <class R>
[[nodiscard]] constexpr auto as_span(R& memory) noexcept {
  if constexpr (std::ranges::range<R>)
    return std::span{memory};
  else
    return std::span<R, 1>{std::addressof(memory), 1};
}

template <class R>
inline constexpr bool kIsConstMemory =
    std::is_const_v<typename decltype(as_span(std::declval<R&>()))::element_type>;

// ---- Everything that names elements, as the list that a work request holds

/// The number of elements that a type holds by value: one, an array's, or a list's.
template <class T, class Element>
inline constexpr std::size_t kHeld = std::dynamic_extent;
template <class Element>
inline constexpr std::size_t kHeld<Element, Element> = 1;
template <class Element, std::size_t N>
inline constexpr std::size_t kHeld<std::array<Element, N>, Element> = N;
template <class Element, std::size_t N>
inline constexpr std::size_t kHeld<ElementList<Element, N>, Element> = N;

template <class T, class Element>
inline constexpr bool kIsList = false;
template <class Element, std::size_t N>
inline constexpr bool kIsList<ElementList<Element, N>, Element> = true;

template <class T, class Element>
concept RangeOf = std::ranges::contiguous_range<T> && std::ranges::sized_range<T> &&
                  std::same_as<std::ranges::range_value_t<T>, Element>;

/// An element, an array, an ElementList, or any contiguous range of elements.
template <class T, class Element>
concept ElementsOf =
    (std::same_as<std::remove_cvref_t<T>, Element> && std::constructible_from<Element, T>) ||
    kIsList<std::remove_cvref_t<T>, Element> || RangeOf<T, Element>;
template <class T>
concept GatherElements = ElementsOf<T, GatherElement>;
template <class T>
concept ScatterElements = ElementsOf<T, ScatterElement>;

/// By value if the number is known and the elements can be copied or moved; else borrowed for the
/// call.
template <class Element, ElementsOf<Element> From>
[[nodiscard]] VERBATIM_HOT auto list_from(From&& from) noexcept {
  using Plain = std::remove_cvref_t<From>;
  constexpr std::size_t kCount = kHeld<Plain, Element>;
  if constexpr (kCount == 0)
    return ElementList<Element, 0>{};
  else if constexpr (kCount != std::dynamic_extent && std::constructible_from<Plain, From>)
    return ElementList<Element, kCount>{std::forward<From>(from)};
  else
    return ElementList<Element, std::dynamic_extent>{
        std::span<const Element>{std::ranges::data(from), std::ranges::size(from)}};
}

}  // namespace detail
}  // namespace verbatim
