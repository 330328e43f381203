// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: more inline data than the queue pair was made for; and why one wants inline data.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  setup.cap.max_inline_data = 32;
  struct pair p = connected(setup);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr made;
  NEED(ibv_query_qp(p.a.qp, &attr, IBV_QP_CAP, &made) == 0);
  // [bug]
  struct ibv_sge part = part_of(&p.a, 0, made.cap.max_inline_data + 1);
  struct ibv_send_wr send = {.sg_list = &part,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
                     *bad;
  printf("one byte too long: %s\n", error_name(ibv_post_send(p.a.qp, &send, &bad)));
  part.length = 16;
  strcpy(p.a.memory, "first");
  ibv_post_send(p.a.qp, &send, &bad);
  strcpy(p.a.memory, "second");  // allowed: inline data is copied by the post
  // [/bug]
  post_receive(&p.b, 1, 0, 16);
  next(p.b.cq);
  printf("inline, then changed: \"%s\"\n", p.b.memory);
  return 0;
}
