// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a region without the right for what a peer does, and one whose rights contradict each
// other.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  struct ibv_mr* mr = ibv_reg_mr(p.pd, p.b.memory, SIZE, IBV_ACCESS_REMOTE_WRITE);
  printf("remote write without local write: %s\n", mr != NULL ? "registered" : error_name(errno));
  p.b.mr = ibv_reg_mr(p.pd, p.b.memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8);
  printf("write to a region for reading: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
