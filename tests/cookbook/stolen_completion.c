// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: two threads poll one completion queue, each for its own request. One takes the other's.
#include <pthread.h>

#include "verbs.h"

// [bug]
static void* wait_for(void* argument) {
  struct side* a = argument;
  struct ibv_wc wc = next(a->cq);
  if (wc.wr_id != 2) printf("thread 2: not mine, forget it\n");  // it was thread 1's
  return NULL;
}

int main(void) {
  struct pair p = connected(usual());
  post_receive(&p.b, 0, 0, 16);
  post_send(&p.a, 1, 0, 16);
  pthread_t second;
  pthread_create(&second, NULL, wait_for, &p.a);
  pthread_join(second, NULL);  // thread 2 polls first
  struct ibv_wc wc;
  printf("thread 1: %s\n", poll_within(p.a.cq, 0.3, &wc) ? "done" : "still waits for its request");
  return 0;
}
// [/bug]
