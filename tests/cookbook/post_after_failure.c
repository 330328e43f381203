// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: the reason of a failure is in one completion. All others are flushed, and posts go on to
// succeed.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  const uint32_t right = p.b.mr->rkey;
  // [bug]
  p.b.mr->rkey = right + 1;  // one wrong key
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8);
  p.b.mr->rkey = right;
  printf("first: %s\n", status_name(next(p.a.cq).status));
  for (int i = 0; i < 2; ++i) {
    printf("next post: %s, ", error_name(post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8)));
    printf("completion: %s\n", status_name(next(p.a.cq).status));
  }
  // [/bug]
  return 0;
}
