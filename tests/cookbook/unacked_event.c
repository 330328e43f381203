// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a completion queue whose event was not acknowledged cannot be destroyed. The call hangs.
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
  a.qp = ibv_create_qp(pd, &attr);
  connect_sides(&a, &b, &setup);
  // [bug]
  ibv_req_notify_cq(cq, 0);
  post_rdma(&a, &b, IBV_WR_RDMA_WRITE, 8);
  void* nothing;
  NEED(ibv_get_cq_event(channel, &cq, &nothing) == 0);  // and no ibv_ack_cq_events
  NEED(ibv_destroy_qp(a.qp) == 0);
  expect_hang(1, "ibv_destroy_cq still waits after 1 s\n");
  ibv_destroy_cq(cq);
  // [/bug]
  printf("ibv_destroy_cq returned\n");
  return 0;
}
