// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: two ends of a connection with different path MTUs.
#include "verbs.h"

int main(void) {
  struct setup small = usual(), large = usual();
  struct pair p = make_pair(&small);
  NEED(to_init(p.a.qp, &large) == 0 && to_init(p.b.qp, &small) == 0);
  // [bug]
  large.attr.path_mtu = IBV_MTU_1024;
  small.attr.path_mtu = IBV_MTU_256;  // each end has its own idea
  NEED(to_rtr(p.a.qp, p.b.qp, &large) == 0 && to_rtr(p.b.qp, p.a.qp, &small) == 0);
  NEED(to_rts(p.a.qp, &large) == 0 && to_rts(p.b.qp, &small) == 0);
  post_receive(&p.b, 1, 0, SIZE);
  post_send(&p.a, 2, 0, 1024);
  printf("1024 here, 256 there: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
