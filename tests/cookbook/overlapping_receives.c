// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: two receives name the same memory. The second message overwrites the first.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  post_receive(&p.b, 1, 0, 16);
  post_receive(&p.b, 2, 0, 16);  // the same 16 bytes
  strcpy(p.a.memory, "first");
  strcpy(p.a.memory + 16, "second");
  post_send(&p.a, 3, 0, 16);
  post_send(&p.a, 4, 16, 16);
  // [/bug]
  struct ibv_wc wc[2] = {next(p.b.cq), next(p.b.cq)};
  for (int i = 0; i < 2; ++i)
    printf("receive %d: %s, \"%s\"\n", (int)wc[i].wr_id, status_name(wc[i].status), p.b.memory);
  return 0;
}
