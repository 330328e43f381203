// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: min_rnr_timer 0 is not the shortest time but the longest.
#include "verbs.h"

static double time_to_fail(uint8_t min_rnr_timer) {
  struct setup setup = usual();
  // [bug]
  setup.attr.min_rnr_timer = min_rnr_timer;  // 0 looks like "at once"
  setup.attr.rnr_retry = 1;
  struct pair p = connected(setup);
  const double begin = seconds();
  post_send(&p.a, 1, 0, 16);  // nobody receives: it fails after one retry
  NEED(next(p.a.cq).status == IBV_WC_RNR_RETRY_EXC_ERR);
  return seconds() - begin;
  // [/bug]
}

static const char* shortest(uint8_t min_rnr_timer) {
  for (int i = 0; i < 3; ++i)  // others use the processor, too
    if (time_to_fail(min_rnr_timer) < 0.6) return "less than";
  return "more than";
}

int main(void) {
  printf("min_rnr_timer 1: %s 600 ms\n", shortest(1));
  printf("min_rnr_timer 0: %s 600 ms\n", shortest(0));
  return 0;
}
