// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: an element reaches beyond its region. The post succeeds, the completion fails.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  post_receive(&p.b, 1, 0, SIZE);
  // [bug]
  printf("post: %s\n", error_name(post_send(&p.a, 2, SIZE - 8, 16)));  // 8 bytes too far
  printf("send: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
