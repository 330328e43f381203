// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: more completions than the completion queue holds. All that use the queue are lost.
#include <poll.h>

#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  // [bug]
  setup.cqe = 4;
  setup.cap.max_send_wr = 512;  // more work than places for its completions
  struct pair p = connected(setup);
  int posted = 0;
  while (posted < 512 && post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8) == 0) ++posted;
  // [/bug]
  struct pollfd ready = {.fd = p.context->async_fd, .events = POLLIN};
  NEED(poll(&ready, 1, 60000) == 1);
  struct ibv_async_event event;
  NEED(ibv_get_async_event(p.context, &event) == 0);
  printf("event: %s\n", event.event_type == IBV_EVENT_CQ_ERR ? "IBV_EVENT_CQ_ERR" : "another");
  ibv_ack_async_event(&event);
  struct ibv_wc wc;
  int polled = 0;
  while (ibv_poll_cq(p.a.cq, 1, &wc) == 1) ++polled;
  printf("%s completions than requests\n", polled < posted ? "fewer" : "not fewer");
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr made;
  const double end = seconds() + 60;
  do NEED(ibv_query_qp(p.a.qp, &attr, IBV_QP_STATE, &made) == 0);
  while (attr.qp_state != IBV_QPS_ERR && seconds() < end);
  printf("the queue pair is %s\n", attr.qp_state == IBV_QPS_ERR ? "in the error state" : "alive");
  return 0;
}
