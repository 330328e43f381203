// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a list of requests is taken in part. Who posts all of it again sends some twice.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  setup.cap.max_send_wr = 2;
  struct pair p = connected(setup);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr made;
  NEED(ibv_query_qp(p.a.qp, &attr, IBV_QP_CAP, &made) == 0);
  const int room = (int)made.cap.max_send_wr;
  struct ibv_sge part = part_of(&p.a, 0, 8);
  struct ibv_send_wr list[room + 1], *bad;
  // [bug]
  for (int i = 0; i <= room; ++i)  // one more than there is room for
    list[i] = (struct ibv_send_wr){.next = i < room ? &list[i + 1] : NULL,
                                   .sg_list = &part,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {(uintptr_t)p.b.memory, p.b.mr->rkey}};
  const int error = ibv_post_send(p.a.qp, list, &bad);
  printf("post: %s; bad_wr is %s\n", error_name(error),
         bad == &list[room] ? "the last of the list" : "another");
  // [/bug]
  struct ibv_wc wc;
  int done = 0;
  while (poll_within(p.a.cq, 0.1, &wc)) done += wc.status == IBV_WC_SUCCESS;
  printf("done in spite of the error: %s\n", done == room ? "all before it" : "not all before it");
  return 0;
}
