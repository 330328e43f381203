// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: the device disappears. What was posted is flushed, and one event says why.
#include <poll.h>

#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  post_receive(&p.b, 1, 0, 16);
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8);  // with it the device goes (the fault plan)
  struct pollfd ready = {.fd = p.context->async_fd, .events = POLLIN};
  NEED(poll(&ready, 1, 5000) == 1);
  struct ibv_async_event event;
  NEED(ibv_get_async_event(p.context, &event) == 0);
  printf("event: %s\n",
         event.event_type == IBV_EVENT_DEVICE_FATAL ? "IBV_EVENT_DEVICE_FATAL" : "another");
  ibv_ack_async_event(&event);
  printf("receive: %s\n", status_name(next(p.b.cq).status));
  printf("next post: %s\n", error_name(post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8)));
  // [/bug]
  return 0;
}
