// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: lkey in place of rkey. Where the device makes both alike, the bug works.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  struct ibv_sge part = part_of(&p.a, 0, 8);
  struct ibv_send_wr write = {.sg_list = &part,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_WRITE,
                              .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = {(uintptr_t)p.b.memory, p.b.mr->lkey}},  // not rkey
      *bad;
  ibv_post_send(p.a.qp, &write, &bad);
  printf("keys %s; write: %s\n", p.b.mr->lkey == p.b.mr->rkey ? "are alike" : "differ",
         status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
