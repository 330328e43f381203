// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: of a completion that failed only four fields mean anything.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  strcpy(p.b.memory, "left from before");
  // [bug]
  post_receive(&p.b, 1, 0, 64);
  struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
  ibv_modify_qp(p.b.qp, &error, IBV_QP_STATE);  // the connection ends
  struct ibv_wc wc;
  memset(&wc, 0x7f, sizeof wc);
  if (poll_within(p.b.cq, 1, &wc))  // "something came"
    printf("message: \"%s\"\n", p.b.memory);
  printf("status: %s\n", status_name(wc.status));
  printf("opcode: that of a %s\n", wc.opcode == IBV_WC_RECV ? "receive" : "send or worse");
  // [/bug]
  return 0;
}
