// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Why a scope failed: its closure's error, and every failed operation that nobody waited
/// for.
#include "verbatim/base/language.hpp"

#include <expected>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"

namespace verbatim {

/// An operation that failed and that nobody waited for; or one that was never posted.
struct ScopeFailure : Error {
  std::source_location where{};  ///< The line that posted it.
  WrId id{};                     ///< As Operation::id().
};

/// At least one of the two is present. `Failure`: an operation that failed.
template <class E, class Failure = ScopeFailure>
struct ScopeError {
  std::optional<E> closure{};         ///< What the closure returned.
  std::vector<Failure> operations{};  ///< In the order in which they failed.

  /// The closure's error, or else that of the first operation, so that VERBATIM_TRY works with a
  /// scope in a function that returns a Result.
  operator Error() const noexcept
    requires std::is_convertible_v<const E&, Error>
  {
    return closure ? Error{*closure} : Error{operations.front()};
  }
};
template <class T, class E = Error>
using ScopeResult = std::expected<T, ScopeError<E>>;

/// A line for the closure, and one for each operation, with the line that posted it.
[[nodiscard]] std::string to_string(const ScopeError<Error>& error);
/// The same with the causes of each.
[[nodiscard]] std::string explain(const ScopeError<Error>& error);

}  // namespace verbatim
