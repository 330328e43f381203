// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a size of 64 bits in a field of 32. The program sends 16 bytes of 4 GiB, and succeeds.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  struct ibv_port_attr port;
  NEED(ibv_query_port(p.context, 1, &port) == 0);
  // [bug]
  volatile size_t length = 4294967312;             // 4 GiB and 16 bytes, of some input
  struct ibv_sge part = part_of(&p.a, 0, length);  // ibv_sge::length has 32 bits
  // [/bug]
  struct ibv_send_wr send = {.sg_list = &part,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                     *bad;
  post_receive(&p.b, 1, 0, 64);
  ibv_post_send(p.a.qp, &send, &bad);
  struct ibv_wc sent = next(p.a.cq), received = next(p.b.cq);
  printf("send of %zu bytes: %s; received: %u\n", (size_t)length, status_name(sent.status),
         received.byte_len);
  printf("max_msg_sz is %s 4 GiB\n", port.max_msg_sz < length ? "less than" : "not less than");
  return 0;
}
