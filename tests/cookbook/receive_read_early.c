// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a program looks at the target of an RDMA read before the completion. It sees old bytes.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  strcpy(p.a.memory, "old");
  strcpy(p.b.memory, "new");
  // [bug]
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_READ, 16);
  printf("after the post: %s\n", p.a.memory);
  next(p.a.cq);
  printf("after the completion: %s\n", p.a.memory);
  // [/bug]
  return 0;
}
