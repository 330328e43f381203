// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/events.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>

#include "soft/shared/engine.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::engine {
namespace {

bool concerns_object(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return true;
    default: return false;
  }
}

ibv_context* context_of(const ibv_async_event& event) noexcept {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: return event.element.cq->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return event.element.srq->context;
    default: return event.element.qp->context;
  }
}

}  // namespace

namespace {

// The descriptor is an eventfd that holds 1 while there are events, and 0 otherwise. It changes
// under the mutex. These functions do not call write() and read(), because those are cancellation
// points.
void show_readable(Context& context) noexcept {
  const std::uint64_t one = 1;
  syscall(SYS_write, context.extended.context.async_fd, &one, sizeof one);
}
void show_empty(Context& context) noexcept {
  std::uint64_t one = 0;
  syscall(SYS_read, context.extended.context.async_fd, &one, sizeof one);  // It is 1: no wait.
}

/// Notes that the program has to acknowledge this event. Returns false if there is no memory for
/// the note.
bool count_taken(Context& context, const ibv_async_event& event) noexcept {
  try {
    if (concerns_object(event.event_type)) ++context.unacknowledged[event.element.qp];
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

void raise_event(Context& context, ibv_event_type type, void* object, int port) noexcept {
  ibv_async_event event{};
  if (object != nullptr) {
    event.element.qp = static_cast<ibv_qp*>(object);  // Same place as the other pointers.
  } else {
    event.element.port_num = port;
  }
  event.event_type = type;
  const std::lock_guard lock{context.event_mutex};
  try {
    context.events.push_back(event);
  } catch (const std::exception&) {
    log(LogLevel::error, "out of memory: an asynchronous event is lost");
    return;
  }
  if (context.events.size() == 1) show_readable(context);
}

void wait_for_acknowledgements(Context& context, const void* object) {
  std::unique_lock lock{context.event_mutex};
  context.acknowledged.wait(lock, [&] { return !context.unacknowledged.contains(object); });
}

bool drop_events(Context& context, const void* object) noexcept {
  const std::lock_guard lock{context.event_mutex};
  if (context.unacknowledged.contains(object)) return false;
  const auto dropped = std::erase_if(context.events, [object](const ibv_async_event& event) {
    return concerns_object(event.event_type) && event.element.qp == object;
  });
  if (dropped != 0 && context.events.empty()) show_empty(context);
  return true;
}

int get_event(ibv_context* raw, ibv_async_event* event) {
  Context& context = Context::of(raw);
  for (;;) {
    {
      const std::lock_guard lock{context.event_mutex};
      if (!context.events.empty()) {
        const ibv_async_event& first = context.events.front();
        if (!count_taken(context, first)) {
          errno = ENOMEM;
          return -1;
        }
        *event = first;
        context.events.pop_front();
        if (context.events.empty()) show_empty(context);
        return 0;
      }
    }
    const int flags = fcntl(raw->async_fd, F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK) != 0) {
      errno = EAGAIN;
      return -1;
    }
    pollfd readable{raw->async_fd, POLLIN, 0};
    if (poll(&readable, 1, -1) < 0) return -1;  // Interrupted by a signal, as read() would report.
  }
}

void acknowledge_event(ibv_async_event* event) noexcept {
  if (!concerns_object(event->event_type)) return;
  Context& context = Context::of(context_of(*event));
  // In a forked child the event is its parent's, and so may be the lock.
  if (context.engine->own().is_abandoned()) return;
  {
    const std::lock_guard lock{context.event_mutex};
    const auto found = context.unacknowledged.find(event->element.qp);
    if (found != context.unacknowledged.end() && --found->second == 0)
      context.unacknowledged.erase(found);
  }
  context.acknowledged.notify_all();
}

}  // namespace verbatim::engine
