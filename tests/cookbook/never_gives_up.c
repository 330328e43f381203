// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: rnr_retry 7 means for ever, not seven times. The send neither succeeds nor fails.
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  // [bug]
  setup.attr.rnr_retry = 7;
  setup.attr.min_rnr_timer = 12;  // 0.64 ms: seven retries would take 5 ms
  struct pair p = connected(setup);
  post_send(&p.a, 1, 0, 16);
  struct ibv_wc wc;
  printf("after a second: %s\n", poll_within(p.a.cq, 1, &wc) ? status_name(wc.status) : "nothing");
  // [/bug]
  return 0;
}
