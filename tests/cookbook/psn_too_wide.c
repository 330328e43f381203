// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a packet number of 32 bits, where the field has 24. The device cuts it off; a handshake
// may cut off more.
#include "verbs.h"

static const char* send_with(uint32_t sq_psn, uint32_t rq_psn) {
  struct setup setup = usual();
  setup.attr.sq_psn = sq_psn;
  setup.attr.rq_psn = rq_psn;
  struct pair p = connected(setup);
  post_receive(&p.b, 1, 0, 16);
  post_send(&p.a, 2, 0, 16);
  return status_name(next(p.a.cq).status);
}

int main(void) {
  // [bug]
  const uint32_t psn = 0x12345678;  // of random(), which knows nothing of 24 bits
  printf("the same 32 bits on both ends: %s\n", send_with(psn, psn));
  printf("the peer cut it off: %s\n", send_with(psn, psn & 0xffffff));
  printf("the peer kept 16 bits of it: %s\n", send_with(psn, psn & 0xffff));
  // [/bug]
  return 0;
}
