// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a region of another protection domain than the queue pair's.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  post_receive(&p.b, 1, 0, 16);
  // [bug]
  struct ibv_pd* other = ibv_alloc_pd(p.context);
  p.a.mr = ibv_reg_mr(other, p.a.memory, SIZE, IBV_ACCESS_LOCAL_WRITE);
  printf("post: %s\n", error_name(post_send(&p.a, 2, 0, 16)));
  printf("send: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
