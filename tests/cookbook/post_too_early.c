// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: posts before the queue pair is ready, and a transition with an attribute missing.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  struct pair p = make_pair(&setup);
  // [bug]
  printf("receive in RESET: %s\n", error_name(post_receive(&p.a, 1, 0, 8)));
  NEED(to_init(p.a.qp, &setup) == 0);
  printf("receive in INIT: %s\n", error_name(post_receive(&p.a, 2, 0, 8)));
  printf("send in INIT: %s\n", error_name(post_send(&p.a, 3, 0, 8)));
  struct ibv_qp_attr attr = setup.attr;
  attr.qp_state = IBV_QPS_RTR;
  printf("to RTR without a path: %s\n", error_name(ibv_modify_qp(p.a.qp, &attr, IBV_QP_STATE)));
  // [/bug]
  return 0;
}
