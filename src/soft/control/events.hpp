// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Asynchronous events of a context: a queue, and an eventfd that counts it.
#include <infiniband/verbs.h>

#include "soft/shared/objects.hpp"

namespace verbatim::engine {

/// `object` is the queue pair, completion queue or shared receive queue that it concerns; for
/// events of a port, `port` is.
void raise_event(Context& context, ibv_event_type type, void* object, int port = 0) noexcept;
/// Before an object goes: its unread events vanish, its unacknowledged ones are waited for.
void forget_events(Context& context, const void* object) noexcept;

int get_event(ibv_context* context, ibv_async_event* event) noexcept;
void acknowledge_event(ibv_async_event* event) noexcept;

}  // namespace verbatim::engine
