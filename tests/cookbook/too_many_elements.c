// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a request with more elements than the queue pair was made for.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  setup.cap.max_send_sge = 1;
  struct pair p = connected(setup);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr made;
  NEED(ibv_query_qp(p.a.qp, &attr, IBV_QP_CAP, &made) == 0);
  // [bug]
  struct ibv_sge parts[64];
  for (int i = 0; i < 64; ++i) parts[i] = part_of(&p.a, 8 * i, 8);
  struct ibv_send_wr send = {.sg_list = parts,
                             .num_sge = made.cap.max_send_sge + 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                     *bad = NULL;
  const int error = ibv_post_send(p.a.qp, &send, &bad);
  printf("post: %s, bad_wr is %s\n", error_name(error), bad == &send ? "the request" : "unset");
  // [/bug]
  return 0;
}
