// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: nobody has posted a receive, and the sender gives up after its retries.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  // [bug]
  setup.attr.rnr_retry = 2;
  struct pair p = connected(setup);
  post_send(&p.a, 1, 0, 16);  // and b has not posted a receive
  printf("send: %s\n", status_name(next(p.a.cq).status));
  printf("the next: %s\n", (post_send(&p.a, 2, 0, 16), status_name(next(p.a.cq).status)));
  // [/bug]
  return 0;
}
