// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The door through which a program enters a control verb.
///
/// A guest in the process: what goes wrong inside ends as an errno, whatever it was. A thread that
/// is cancelled is so before or after a verb, not inside, where it may hold locks; only the verbs
/// that wait for events are not entered here.
///
/// Owns the thread's state of cancellation while a verb runs. Any thread; no locks. Not hot.
#include <cerrno>
#include <exception>
#include <type_traits>

#include "base/uncancelled.hpp"

namespace verbatim::engine {

/// As a verb with this result fails.
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
      } catch (const std::exception&) {  // What can be thrown is want of memory.
        return failed_with<R>(ENOMEM);
      }
    }
  }
};
/// The verb, behind the door.
template <auto Verb>
inline constexpr auto kGuarded = &Guarded<Verb>::call;

}  // namespace verbatim::engine
