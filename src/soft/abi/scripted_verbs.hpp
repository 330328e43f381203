// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Control verbs that fail when the fault plan says so, each in its own way; otherwise as in
/// guarded.hpp. A device that the plan has removed makes nothing new, as hardware. In a forked
/// child they refuse the objects of its parent.
///
/// Owns nothing. Any thread; takes `script` on unusual days. Not hot.
#include <cerrno>
#include <type_traits>

#include "base/uncancelled.hpp"
#include "soft/abi/guarded.hpp"
#include "soft/abi/inherited.hpp"
#include "soft/faults/hook.hpp"
#include "soft/memory/registration.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

/// Whether the device is gone on which a verb with this first argument works.
template <class Object>
[[nodiscard]] bool is_gone(const Object* object) noexcept {
  if constexpr (std::is_same_v<Object, ibv_device>)
    return false;  // Opening it is a new beginning.
  else if constexpr (std::is_same_v<Object, ibv_context>)
    return Context::of(const_cast<ibv_context*>(object)).removed.load();
  else
    return is_gone(object->context);
}
template <class Object, class... More>
[[nodiscard]] bool is_gone_for(const Object* object, const More&...) noexcept {
  return is_gone(object);
}

/// Whether a verb with this result and first argument is refused in a forked child. Queries of a
/// context are not: they only read what the child has, too.
template <class R, class Object, class... More>
[[nodiscard]] bool is_refused_for(const Object* object, const More&...) noexcept {
  if constexpr (std::is_integral_v<R> && std::is_same_v<Object, ibv_context>)
    return false;
  else
    return is_inherited(object);
}

template <auto Verb>
struct Scripted;
template <class R, class... Args, bool Noexcept, R (*Verb)(Args...) noexcept(Noexcept)>
struct Scripted<Verb> {
  static R call(Args... args) noexcept {
    if (is_refused_for<R>(args...)) [[unlikely]]
      return failed_with<R>(EOWNERDEAD);
    if (is_unusual()) [[unlikely]] {
      if (const int os_error = next_call()) return failed_with<R>(os_error);
    }
    if constexpr (std::is_pointer_v<R>) {  // It makes something.
      if (is_gone_for(args...)) [[unlikely]]
        return failed_with<R>(EIO);
    }
    return Guarded<Verb>::call(args...);
  }
};
/// The verb, unless the script says that this call fails.
template <auto Verb>
inline constexpr auto kScripted = &Scripted<Verb>::call;

/// reregister_memory: it has its own codes, and the error in errno.
inline int scripted_reregister(ibv_mr* region, int flags, ibv_pd* domain, void* address,
                               std::size_t length, int access) noexcept {
  int os_error = is_inherited(region) ? EOWNERDEAD : 0;
  if (os_error == 0 && is_unusual()) os_error = next_call();
  if (os_error == 0 && is_gone(region)) os_error = EIO;
  if (os_error != 0) {
    errno = os_error;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const Uncancelled here;
  return reregister_memory(region, flags, domain, address, length, access);
}

}  // namespace verbatim::engine
