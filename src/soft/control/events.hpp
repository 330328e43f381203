// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Asynchronous events of a context: a queue, and a descriptor that is readable while it has
/// some.
///
/// Owns nothing: the queue is the context's. Raised by the thread that answers a cry (helper,
/// poller) or by a control verb; read by the program. Takes `events`; who waits for events to be
/// given back holds nothing. Not hot. Not noexcept where a thread may be cancelled: get_event.
#include <infiniband/verbs.h>

#include "soft/shared/objects.hpp"

namespace verbatim::engine {

/// `object` is the queue pair, completion queue or shared receive queue that it concerns; for
/// events of a port, `port` is.
void raise_event(Context& context, ibv_event_type type, void* object, int port = 0) noexcept;

/// Before an object goes: waits until the program has given back every event of it that it took, as
/// long as that takes (the verbs promise it). The caller holds no lock.
void wait_for_acknowledgements(Context& context, const void* object);
/// Its unread events vanish. False: the program has taken one meanwhile, wait once more.
[[nodiscard]] bool drop_events(Context& context, const void* object) noexcept;

/// Takes the engine's `lifetime` for good when the object has no events any more; calls `removing`.
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
