// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: sends without a signal, and nobody asks for completions. The queue fills for good.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr made;
  NEED(ibv_query_qp(p.a.qp, &attr, IBV_QP_CAP, &made) == 0);
  struct ibv_sge part = part_of(&p.a, 0, 8);
  // [bug]
  struct ibv_send_wr write = {.sg_list = &part,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_WRITE,
                              .send_flags = 0,  // "completions only cost time"
                              .wr.rdma = {(uintptr_t)p.b.memory, p.b.mr->rkey}},
                     *bad;
  unsigned posted = 0;
  int error;
  while ((error = ibv_post_send(p.a.qp, &write, &bad)) == 0 && posted < 100000) ++posted;
  struct ibv_wc wc;
  printf("after %s writes: %s\n", posted == made.cap.max_send_wr ? "max_send_wr" : "many more",
         error_name(error));
  printf("completions to poll: %d\n", ibv_poll_cq(p.a.cq, 1, &wc));
  poll_within(p.a.cq, 0.5, &wc);
  printf("half a second later: %s\n", error_name(ibv_post_send(p.a.qp, &write, &bad)));
  // [/bug]
  return 0;
}
