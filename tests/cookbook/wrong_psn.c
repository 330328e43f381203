// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: the first packet has a number that the receiver does not expect.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  // [bug]
  setup.attr.sq_psn = 1000;
  setup.attr.rq_psn = 2000;  // the peer sends from 1000 on
  struct pair p = connected(setup);
  post_receive(&p.b, 1, 0, 16);
  post_send(&p.a, 2, 0, 16);
  printf("send: %s\n", status_name(next(p.a.cq).status));
  struct ibv_wc wc;
  printf("receive: %s\n", poll_within(p.b.cq, 0.2, &wc) ? status_name(wc.status) : "nothing");
  // [/bug]
  return 0;
}
