// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: an asynchronous event that was read and not acknowledged keeps its queue pair from being
// destroyed.
#include <poll.h>

#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  p.b.mr = ibv_reg_mr(p.pd, p.b.memory, SIZE, 0);
  // [bug]
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8);  // without the right: b hears of it
  next(p.a.cq);
  struct pollfd ready = {.fd = p.context->async_fd, .events = POLLIN};
  NEED(poll(&ready, 1, 5000) == 1);
  struct ibv_async_event event;
  NEED(ibv_get_async_event(p.context, &event) == 0);  // and no ibv_ack_async_event
  printf("event: %s\n",
         event.event_type == IBV_EVENT_QP_ACCESS_ERR ? "IBV_EVENT_QP_ACCESS_ERR" : "another");
  expect_hang(1, "ibv_destroy_qp still waits after 1 s\n");
  ibv_destroy_qp(event.element.qp);
  // [/bug]
  printf("ibv_destroy_qp returned\n");
  return 0;
}
