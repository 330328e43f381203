// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a send of what a read before it brings, without IBV_SEND_FENCE.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  memset(p.a.memory, 'o', SIZE);
  memset(p.b.memory, 'n', 2048);
  int stale = 0;
  for (int i = 0; i < 100; ++i) {
    memset(p.a.memory, 'o', 2048);
    post_receive(&p.b, 1, 2048, 2048);
    // [bug]
    post_rdma(&p.a, &p.b, IBV_WR_RDMA_READ, 2048);
    post_send(&p.a, 2, 0, 2048);  // no IBV_SEND_FENCE: it may read the memory first
    // [/bug]
    next(p.a.cq);
    next(p.a.cq);
    next(p.b.cq);
    stale += memchr(p.b.memory + 2048, 'o', 2048) != NULL;
  }
  printf("messages with old bytes: %s\n", stale > 0 ? "some" : "none");
  return 0;
}
