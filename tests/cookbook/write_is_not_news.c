// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: the completion of a write says nothing to the peer, and not that the peer has looked.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  struct ibv_wc wc;
  // [bug]
  post_receive(&p.b, 1, 0, 16);
  strcpy(p.a.memory, "data");
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 16);
  printf("the writer: %s\n", status_name(next(p.a.cq).status));
  printf("the peer: %d completions\n", ibv_poll_cq(p.b.cq, 1, &wc));
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE_WITH_IMM, 16);
  next(p.a.cq);
  printf("with immediate: %s\n", next(p.b.cq).opcode == IBV_WC_RECV_RDMA_WITH_IMM
                                     ? "the peer has a completion"
                                     : "another");
  // [/bug]
  return 0;
}
