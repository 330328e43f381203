// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: one side sends before the other is ready to receive.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  struct pair p = make_pair(&setup);
  // [bug]
  NEED(to_init(p.a.qp, &setup) == 0 && to_init(p.b.qp, &setup) == 0);
  NEED(to_rtr(p.a.qp, p.b.qp, &setup) == 0 && to_rts(p.a.qp, &setup) == 0);
  post_receive(&p.b, 1, 0, 16);
  post_send(&p.a, 2, 0, 16);  // b is still in INIT
  printf("send: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
