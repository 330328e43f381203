// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The entry of a program into a control verb.
///
/// The library is a guest in the process: any failure inside ends as an errno. A thread can be
/// cancelled before or after a verb, but not inside, where it may hold locks. Only the verbs that
/// wait for events do not go through here.
///
/// Owns the thread's cancellation state while a verb runs. Any thread; no locks. Not hot.
#include <cerrno>
#include <exception>
#include <type_traits>

#include "base/uncancelled.hpp"

namespace verbatim::engine {

/// How a verb with this result type fails.
template <class R>
[[nodiscard]] R failed_with(int os_error) noexcept {
  errno = os_error;
  if constexpr (std::is_pointer_v<R>)
    return nullptr;
  else if constexpr (std::is_integral_v<R>)
    return static_cast<R>(os_error);
}

template <auto Verb>
struct Guarded;
template <class R, class... Args, bool Noexcept, R (*Verb)(Args...) noexcept(Noexcept)>
struct Guarded<Verb> {
  static R call(Args... args) noexcept {
    const Uncancelled here;
    if constexpr (Noexcept) {
      return Verb(args...);
    } else {
      try {
        return Verb(args...);
      } catch (const std::exception&) {  // The only possible exception is lack of memory.
        return failed_with<R>(ENOMEM);
      }
    }
  }
};
/// The verb, behind this entry.
template <auto Verb>
inline constexpr auto kGuarded = &Guarded<Verb>::call;

}  // namespace verbatim::engine
