// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Verbs on objects that a forked child has inherited from its parent.
///
/// The child has copies of the objects, but what they stand for belongs to the parent: places in
/// its segment, FIFOs, and locks that its other threads may hold. So nothing that the child does
/// may touch them. A verb that destroys an object does nothing and succeeds: for the child the
/// object has never been there, and its destructors need not know. All others fail with EOWNERDEAD;
/// for control verbs that is in scripted_verbs.hpp, and for posting and polling in
/// control/engine.cpp.
///
/// Owns nothing; the child keeps the memory of the copies until it ends. Any thread; no locks. Not
/// hot.
#include <cerrno>
#include <type_traits>

#include "soft/abi/guarded.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

/// Whether the object belongs to the process that this one was forked from.
template <class Object>
[[nodiscard]] bool is_inherited(const Object* object) noexcept {
  if constexpr (std::is_same_v<Object, ibv_device>)
    return false;  // It can be opened anew.
  else if constexpr (std::is_same_v<Object, ibv_context>)
    return Context::of(const_cast<ibv_context*>(object)).engine->own().is_abandoned();
  else
    return is_inherited(object->context);
}

template <auto Verb>
struct Destroying;
template <class Object, bool Noexcept, int (*Verb)(Object*) noexcept(Noexcept)>
struct Destroying<Verb> {
  static int call(Object* object) noexcept {
    return is_inherited(object) ? 0 : Guarded<Verb>::call(object);
  }
};
/// A verb that destroys an object.
template <auto Verb>
inline constexpr auto kDestroying = &Destroying<Verb>::call;

template <auto Verb>
struct Eventful;
template <class Object, class... Args, int (*Verb)(Object*, Args...)>
struct Eventful<Verb> {
  // Not noexcept: a thread may be cancelled here.
  static int call(Object* object, Args... args) {
    if (!is_inherited(object)) return Verb(object, args...);
    errno = EOWNERDEAD;
    return -1;
  }
};
/// A verb that waits for an event. The child would take the event from its parent.
template <auto Verb>
inline constexpr auto kEventful = &Eventful<Verb>::call;

}  // namespace verbatim::engine
