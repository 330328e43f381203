// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: the program changes a buffer after the post and before the completion. The receiver gets
// the new bytes. No call fails.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  strcpy(p.a.memory, "first");
  post_send(&p.a, 1, 0, 16);
  strcpy(p.a.memory, "second");  // the device may not have read it yet: here nobody receives yet
  // [/bug]
  post_receive(&p.b, 2, 0, 16);
  struct ibv_wc sent = next(p.a.cq);
  next(p.b.cq);
  printf("the send: %s; the receiver got \"%s\"\n", status_name(sent.status), p.b.memory);
  return 0;
}
