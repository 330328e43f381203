// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/events.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

void raise_event(Context& context, ibv_event_type type, void* object, int port) noexcept {
  ibv_async_event event{};
  if (object != nullptr) {
    event.element.qp = static_cast<ibv_qp*>(object);  // The union's other pointers are alike.
  } else {
    event.element.port_num = port;
  }
  event.event_type = type;
  {
    const std::lock_guard lock{context.event_mutex};
    context.events.push_back(event);
  }
  const std::uint64_t one = 1;
  if (write(context.extended.context.async_fd, &one, sizeof one) < 0) {
    // The counter is full only after 2^64 unread events.
  }
}

void forget_events(Context& context, const void* object) noexcept {
  std::unique_lock lock{context.event_mutex};
  std::erase_if(context.events, [object](const ibv_async_event& event) {
    return concerns_object(event.event_type) && event.element.qp == object;
  });
  context.acknowledged.wait(lock, [&] { return !context.unacknowledged.contains(object); });
}

int get_event(ibv_context* raw, ibv_async_event* event) noexcept {
  Context& context = Context::of(raw);
  for (;;) {
    std::uint64_t one = 0;
    // Blocks, or not, as the program set up the descriptor.
    if (read(raw->async_fd, &one, sizeof one) != sizeof one) return -1;
    const std::lock_guard lock{context.event_mutex};
    if (context.events.empty()) continue;  // Its object was destroyed meanwhile.
    *event = context.events.front();
    context.events.pop_front();
    if (concerns_object(event->event_type)) ++context.unacknowledged[event->element.qp];
    return 0;
  }
}

void acknowledge_event(ibv_async_event* event) noexcept {
  if (!concerns_object(event->event_type)) return;
  Context& context = Context::of(context_of(*event));
  {
    const std::lock_guard lock{context.event_mutex};
    const auto found = context.unacknowledged.find(event->element.qp);
    if (found != context.unacknowledged.end() && --found->second == 0)
      context.unacknowledged.erase(found);
  }
  context.acknowledged.notify_all();
}

}  // namespace verbatim::engine
