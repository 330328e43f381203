// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A verb goes to the engine if its object is ours, and to the original if not.
///
/// An object is ours if its device is. Real objects thus pass through unchanged, and our objects
/// never reach the real library, which would look for its own data in them.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>

#include "base/uncancelled.hpp"
#include "preload/original.hpp"
#include "soft/control/device.hpp"

// verbs.h turns these into macros; this file needs the exported functions themselves.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

namespace verbatim::preload {

using engine::is_soft;
[[nodiscard]] inline bool is_soft(const ibv_context* context) noexcept {
  return is_soft(context->device);
}
/// For a domain, region, queue, channel or handle: each knows its context.
template <class Object>
[[nodiscard]] bool is_soft(const Object* object) noexcept {
  return is_soft(object->context->device);
}

/// A string as a template argument.
template <std::size_t Size>
struct Text {
  char characters[Size];
  consteval Text(const char (&text)[Size]) { std::copy_n(text, Size, characters); }
};

/// Calls `Soft`, or the original of that name and version, depending on the first argument's
/// device. Verbs that return an errno also set it, because programs look there anyway. The engine
/// makes file system calls, where the thread could be cancelled, and is noexcept. So cancellation
/// is disabled.
template <Text Name, Text Version, auto Soft, class First, class... Rest>
auto dispatch(First first, Rest... rest) {
  using R = std::invoke_result_t<decltype(Soft), First, Rest...>;
  static constinit Original<R(First, Rest...)> original{Name.characters, Version.characters};
  if (!is_soft(first)) return original(first, rest...);
  const Uncancelled here;
  if constexpr (std::is_same_v<R, int>) {
    const int result = Soft(first, rest...);
    if (result > 0) errno = result;
    return result;
  } else {
    return Soft(first, rest...);
  }
}

/// The same for verbs that wait for an event: programs cancel a thread there, and its stack is
/// unwound. So neither this nor what it calls is noexcept.
template <Text Name, Text Version, auto Soft, class First, class... Rest>
int dispatch_waiting(First first, Rest... rest) {
  static constinit Original<int(First, Rest...)> original{Name.characters, Version.characters};
  return is_soft(first) ? Soft(first, rest...) : original(first, rest...);
}

/// For dispatch(): fails with EOPNOTSUPP, in the way of verbs with that result type.
template <class R>
constexpr auto kUnsupported = [](auto...) noexcept -> R {
  errno = EOPNOTSUPP;
  if constexpr (std::is_pointer_v<R>) return nullptr;
  if constexpr (std::is_integral_v<R>) return static_cast<R>(EOPNOTSUPP);
};

/// For verbs that return -1 and set errno; takes an errno, or 0.
inline int minus_one(int os_error) noexcept {
  if (os_error == 0) return 0;
  errno = os_error;
  return -1;
}

}  // namespace verbatim::preload
