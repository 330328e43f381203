// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a wait with a time-out gives up, and the program uses its buffer for something else. The
// message comes all the same.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  post_receive(&p.b, 1, 0, 32);
  struct ibv_wc wc;
  if (!poll_within(p.b.cq, 0.05, &wc)) strcpy(p.b.memory, "mine again");
  // [/bug]
  printf("after the time-out: \"%s\"\n", p.b.memory);
  strcpy(p.a.memory, "a late message");
  post_send(&p.a, 2, 0, 32);
  next(p.a.cq);
  printf("a little later: \"%s\"\n", p.b.memory);
  return 0;
}
