// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Control verbs that fail when the fault plan says so, each in its own way.
#include <cerrno>
#include <type_traits>

#include "soft/faults/hook.hpp"
#include "soft/memory/registration.hpp"

namespace verbatim::engine {

template <auto Verb>
struct Scripted;
template <class R, class... Args, R (*Verb)(Args...) noexcept>
struct Scripted<Verb> {
  static R call(Args... args) {
    if (is_unusual()) [[unlikely]] {
      if (const int os_error = next_call()) {
        errno = os_error;
        if constexpr (std::is_pointer_v<R>) return nullptr;
        if constexpr (std::is_integral_v<R>) return static_cast<R>(os_error);
      }
    }
    return Verb(args...);
  }
};
/// The verb, unless the script says that this call fails.
template <auto Verb>
inline constexpr auto kScripted = &Scripted<Verb>::call;

/// reregister_memory: it has codes of its own, and the error in errno.
inline int scripted_reregister(ibv_mr* region, int flags, ibv_pd* domain, void* address,
                               std::size_t length, int access) noexcept {
  if (const int os_error = is_unusual() ? next_call() : 0) {
    errno = os_error;
    return IBV_REREG_MR_ERR_INPUT;
  }
  return reregister_memory(region, flags, domain, address, length, access);
}

}  // namespace verbatim::engine
