// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a child of fork() goes on with its parent's queue pair.
#include <sys/wait.h>

#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  post_receive(&p.b, 1, 0, 16);
  // [bug]
  strcpy(p.a.memory, "of the parent");
  if (fork() == 0) {
    strcpy(p.a.memory, "of the child");
    printf("post of the child: %s\n", error_name(post_send(&p.a, 2, 0, 16)));
    fflush(stdout);
    _exit(0);
  }
  // [/bug]
  wait(NULL);
  struct ibv_wc wc;
  if (poll_within(p.b.cq, 0.2, &wc))
    printf("receive of the parent: %s, \"%s\"\n", status_name(wc.status), p.b.memory);
  else
    printf("the parent received nothing\n");
  return 0;
}
