// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Asynchronous events of a context: a queue, and a descriptor that is readable while it has
/// some.
///
/// Owns nothing: the queue belongs to the context. The thread that answers a cry (helper, poller)
/// or a control verb raises events; the program reads them. Takes `events`; a thread that waits for
/// acknowledgements holds nothing. Not hot. get_event is not noexcept, because a thread may be
/// cancelled there.
#include <infiniband/verbs.h>

#include "soft/shared/objects.hpp"

namespace verbatim::engine {

/// `object` is the queue pair, completion queue or shared receive queue concerned; for events of a
/// port, `port` says which.
void raise_event(Context& context, ibv_event_type type, void* object, int port = 0) noexcept;

/// Before an object is destroyed: waits until the program has acknowledged every event of it that
/// it took, however long that takes (the verbs promise it). The caller holds no lock.
void wait_for_acknowledgements(Context& context, const void* object);
/// Drops its unread events. False: the program has taken one meanwhile, wait once more.
[[nodiscard]] bool drop_events(Context& context, const void* object) noexcept;

/// Takes the engine's `lifetime` once the object has no more events; calls `removing`.
template <class Lock>
void lock_without_events(Lock& removing, Context& context, const void* object) {
  for (;;) {
    wait_for_acknowledgements(context, object);
    removing.lock();
    if (drop_events(context, object)) return;
    removing.unlock();
  }
}

int get_event(ibv_context* context, ibv_async_event* event);
void acknowledge_event(ibv_async_event* event) noexcept;

}  // namespace verbatim::engine
