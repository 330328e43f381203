// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a receive buffer is freed before its message came. The message lands in whatever the
// allocator put there.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  char* buffer = malloc(1000);
  struct ibv_mr* mr = ibv_reg_mr(p.pd, buffer, 1000, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_sge part = {(uintptr_t)buffer, 1000, mr->lkey};
  struct ibv_recv_wr receive = {.sg_list = &part, .num_sge = 1}, *bad;
  ibv_post_recv(p.b.qp, &receive, &bad);
  free(buffer);

  char* account = malloc(1000);  // glibc hands the same block out again
  strcpy(account, "balance: 100");
  // [/bug]
  strcpy(p.a.memory, "the peer's message");
  post_send(&p.a, 1, 0, 32);
  struct ibv_wc wc = next(p.b.cq);
  printf("receive: %s; account: \"%s\"\n", status_name(wc.status), account);
  return 0;
}
