// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: immediate data is in network order, and nobody converts it.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  post_receive(&p.b, 1, 0, 16);
  struct ibv_send_wr send = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 7}, *bad;  // no htonl
  ibv_post_send(p.a.qp, &send, &bad);
  struct ibv_wc wc = next(p.b.cq);
  printf("a peer that converts reads %u\n", ntohl(wc.imm_data));
  // [/bug]
  return 0;
}
