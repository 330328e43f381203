// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a region is deregistered while a receive names it. Both ends fail, with other words.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  post_receive(&p.b, 1, 0, 16);
  printf("ibv_dereg_mr: %s\n", error_name(ibv_dereg_mr(p.b.mr)));
  post_send(&p.a, 2, 0, 16);
  // [/bug]
  printf("receiver: %s\n", status_name(next(p.b.cq).status));
  printf("sender: %s\n", status_name(next(p.a.cq).status));
  return 0;
}
