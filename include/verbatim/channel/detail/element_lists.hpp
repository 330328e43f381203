// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Whatever names elements, as the list that a work request has.
#include <array>
#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/verbs/elements.hpp"

namespace verbatim::detail {

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

/// By value where the number is known and the elements can be had; else borrowed, for the call.
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

}  // namespace verbatim::detail
