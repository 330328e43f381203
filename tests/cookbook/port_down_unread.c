// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: who reads no asynchronous events does not hear that the port went down.
#include <poll.h>

#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  post_receive(&p.b, 1, 0, 16);
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8);  // with it the port goes down (the fault plan)
  struct ibv_wc wc;
  printf("receive within 0.5 s: %s\n", poll_within(p.b.cq, 0.5, &wc) ? "yes" : "nothing");
  struct pollfd ready = {.fd = p.context->async_fd, .events = POLLIN};
  printf("events that nobody reads: %s\n", poll(&ready, 1, 5000) == 1 ? "yes" : "no");
  // [/bug]
  struct ibv_async_event event;
  NEED(ibv_get_async_event(p.context, &event) == 0);
  printf("the first is %s\n",
         event.event_type == IBV_EVENT_PORT_ERR ? "IBV_EVENT_PORT_ERR" : "another");
  ibv_ack_async_event(&event);
  return 0;
}
