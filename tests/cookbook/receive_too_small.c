// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a message is longer than the receive that it meets.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  post_receive(&p.b, 1, 0, 64);
  post_send(&p.a, 2, 0, 65);
  printf("receiver: %s\n", status_name(next(p.b.cq).status));
  printf("sender: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
