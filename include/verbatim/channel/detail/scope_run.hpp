// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One scope from start to end: runs the closure, waits, and combines both outcomes.
#include "verbatim/base/language.hpp"

#include <expected>
#include <source_location>
#include <type_traits>
#include <utility>

#include "verbatim/base/check.hpp"
#include "verbatim/channel/scope.hpp"

namespace verbatim::detail {

template <class T>
inline constexpr bool kHoldsHandle = false;
template <>
inline constexpr bool kHoldsHandle<Operation> = true;
template <>
inline constexpr bool kHoldsHandle<Scope> = true;
template <class T>
inline constexpr bool kHoldsHandle<T*> = kHoldsHandle<std::remove_cv_t<T>>;
template <class T>
inline constexpr bool kHoldsHandle<T&> = kHoldsHandle<std::remove_cv_t<T>>;
template <template <class...> class Outer, class... Inner>
inline constexpr bool kHoldsHandle<Outer<Inner...>> =
    (kHoldsHandle<std::remove_cv_t<Inner>> || ...);

template <class T>
struct ScopeReturn {  // A plain value, or nothing.
  using Value = T;
  using Failure = Error;
  static constexpr bool kIsResult = false;
};
template <class T, class E>
struct ScopeReturn<std::expected<T, E>> {
  using Value = T;
  using Failure = E;
  static constexpr bool kIsResult = true;
};

class ScopeRun {
 public:
  template <class Outcome, class Failure, class AnyScope>
  static Outcome leave(AnyScope& scope, Failure* failure, bool manual, std::source_location where) {
    const std::uint32_t left = scope.state_.handles;
    scope.finish();
    if (manual && left != 0 && failure == nullptr) [[unlikely]]
      contract_violated("manual_scope(): operations were not waited for", left, 0, where);
    if (failure != nullptr || scope.state_.failed) [[unlikely]] {
      typename Outcome::error_type error;
      if (failure != nullptr) error.closure = std::move(*failure);
      if (scope.state_.failed) error.operations = scope.take_failures();
      return Outcome{std::unexpect, std::move(error)};
    }
    return Outcome{};
  }

  /// `manual`: leaving a handle unwaited is a programming error.
  template <class AnyScope, class On, class F>
  static auto run(On& on, F& body, bool manual, std::source_location where) {
    using Returned = std::invoke_result_t<F&, AnyScope&>;
    static_assert(!kHoldsHandle<std::remove_cv_t<Returned>>,
                  "verbatim: the closure of a scope returns an Operation or the Scope: it would "
                  "outlive the scope");
    using Parts = ScopeReturn<std::remove_cvref_t<Returned>>;
    using Value = typename Parts::Value;
    using Failure = typename Parts::Failure;
    using Left = typename AnyScope::OperationFailure;
    using Outcome = std::expected<Value, ScopeError<Failure, Left>>;
    AnyScope scope{on};
    if constexpr (std::is_void_v<Returned>) {
      scope.frame_.run(body, scope);
      return leave<Outcome, Failure>(scope, nullptr, manual, where);
    } else {
      auto returned = scope.frame_.run(body, scope);
      Failure* failure = nullptr;
      if constexpr (Parts::kIsResult) failure = returned ? nullptr : &returned.error();
      auto left = leave<std::expected<void, ScopeError<Failure, Left>>, Failure>(scope, failure,
                                                                                 manual, where);
      if (!left) [[unlikely]]
        return Outcome{std::unexpect, std::move(left.error())};
      if constexpr (std::is_void_v<Value>)
        return Outcome{};
      else if constexpr (Parts::kIsResult)
        return Outcome{std::move(*returned)};
      else
        return Outcome{std::move(returned)};
    }
  }
};

}  // namespace verbatim::detail
