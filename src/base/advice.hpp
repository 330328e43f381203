// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What is known about special cases of a code without looking at the machine.
#include <span>
#include <string_view>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

struct Advice {
  Errc code;
  int os_error;                ///< 0 for any.
  std::string_view operation;  ///< "" for any.
  std::string_view field;      ///< "" for any.
  std::string_view text;       ///< The cause, and after a colon the remedy.

  [[nodiscard]] constexpr bool fits(const Error& error) const noexcept {
    return code == error.code && (os_error == 0 || os_error == error.os_error) &&
           (operation.empty() || operation == error.operation) &&
           (field.empty() || field == error.field);
  }
};

/// All advice. The rows that match an error are in the order in which to print them.
[[nodiscard]] std::span<const Advice> advice() noexcept;

}  // namespace verbatim::detail
