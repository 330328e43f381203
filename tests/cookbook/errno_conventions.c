// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: verbs tell of failures in four ways. A test for the wrong one never fires.
#include <fcntl.h>

#include "verbs.h"

int main(void) {
  struct pair p = make_pair(&(struct setup){.type = IBV_QPT_RC, .cqe = 16});
  struct ibv_comp_channel* channel = ibv_create_comp_channel(p.context);
  fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  // [bug]
  errno = 0;
  const int posted = post_send(&p.a, 1, 0, 8);  // in RESET: refused
  printf("ibv_post_send returns %s", posted > 0 ? error_name(posted) : "0 or less");
  printf(", errno is %s\n", posted == errno ? "the same" : error_name(errno));
  printf("ibv_reg_mr returns NULL, errno is %s\n",
         ibv_reg_mr(p.pd, p.a.memory, SIZE, IBV_ACCESS_REMOTE_WRITE) == NULL ? error_name(errno)
                                                                             : "unused");
  struct ibv_cq* cq;
  void* context;
  errno = 0;
  const int got = ibv_get_cq_event(channel, &cq, &context);
  printf("ibv_get_cq_event returns %d, errno is %s\n", got, error_name(errno));
  struct ibv_wc wc;
  printf("ibv_poll_cq of an empty queue returns %d\n", ibv_poll_cq(p.a.cq, 1, &wc));
  // [/bug]
  return 0;
}
