// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: two connections share a completion queue and number their requests from 0.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  struct pair p = connected(setup);
  struct side c = make_side(p.context, p.pd, &setup), d = make_side(p.context, p.pd, &setup);
  ibv_destroy_qp(c.qp);
  struct ibv_qp_init_attr attr = {
      .send_cq = p.a.cq, .recv_cq = p.a.cq, .cap = setup.cap, .qp_type = IBV_QPT_RC};
  c.qp = ibv_create_qp(p.pd, &attr);
  connect_sides(&c, &d, &setup);
  // [bug]
  post_receive(&d, 0, 0, 16);
  post_send(&p.a, 0, 0, 16);  // nobody receives this one yet
  post_send(&c, 0, 0, 16);
  struct ibv_wc wc = next(p.a.cq);
  if (wc.wr_id == 0) printf("request 0 is done: its buffer is free\n");
  printf("it was that of %s queue pair\n", wc.qp_num == p.a.qp->qp_num ? "this" : "the other");
  // [/bug]
  return 0;
}
