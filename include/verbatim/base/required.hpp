// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file An option without a default: leaving it out of the options struct does not compile.
#include "verbatim/base/language.hpp"

#include <concepts>
#include <type_traits>
#include <utility>

namespace verbatim {

template <class T>
class Required {
 public:
  Required() = delete;  // A required option is missing: name it in the braces.
  Required(T value) : value_(std::move(value)) {}
  /// Takes anything that converts to T (`.access = Access::remote_write`), except numbers. Those
  /// use the constructor above, where a literal does not count as a change of sign.
  template <class U>
    requires(std::convertible_to<U, T> && !std::same_as<std::remove_cvref_t<U>, T> &&
             !std::is_arithmetic_v<std::remove_cvref_t<U>>)
  Required(U&& value) : value_(std::forward<U>(value)) {}

  [[nodiscard]] const T& get() const noexcept { return value_; }
  operator const T&() const noexcept { return value_; }

 private:
  T value_;
};

}  // namespace verbatim
