// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a completion that comes between the last poll and the arming need not raise an event.
#include <poll.h>

#include "verbs.h"

int main(void) {
  struct ibv_context* context = open_device();
  struct ibv_comp_channel* channel = ibv_create_comp_channel(context);
  struct setup setup = usual();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct side a = make_side(context, pd, &setup), b = make_side(context, pd, &setup);
  struct ibv_cq* cq = ibv_create_cq(context, 16, NULL, channel, 0);
  struct ibv_qp_init_attr attr = {
      .send_cq = cq, .recv_cq = cq, .cap = setup.cap, .qp_type = IBV_QPT_RC};
  b.qp = ibv_create_qp(pd, &attr);
  connect_sides(&a, &b, &setup);
  post_receive(&b, 1, 0, 16);
  struct ibv_wc wc;
  // [bug]
  NEED(ibv_poll_cq(cq, 1, &wc) == 0);  // nothing there: go to sleep
  post_send(&a, 2, 0, 16);             // at this moment a message comes
  next(a.cq);
  ibv_req_notify_cq(cq, 0);  // too late for it
  struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
  printf("event within 0.3 s: %s\n", poll(&ready, 1, 300) == 1 ? "yes" : "no");
  printf("completions in the queue: %d\n", ibv_poll_cq(cq, 1, &wc));
  // [/bug]
  return 0;
}
