// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a write that ends beyond the peer's region. The writer fails, and so does its connection.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  struct ibv_sge part = part_of(&p.a, 0, 64);
  struct ibv_send_wr write = {.sg_list = &part,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_WRITE,
                              .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = {(uintptr_t)p.b.memory + SIZE - 32, p.b.mr->rkey}},
                     *bad;
  printf("post: %s\n", error_name(ibv_post_send(p.a.qp, &write, &bad)));
  printf("write: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
