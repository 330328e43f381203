// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a cache finds a registration by its address, and the memory there is other memory by now.
#include <sys/mman.h>

#include "verbs.h"

static char* map_at(void* place) {
  return mmap(place, SIZE, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | (place != NULL ? MAP_FIXED : 0), -1, 0);
}

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  p.a.memory = map_at(NULL);
  strcpy(p.a.memory, "old page");
  p.a.mr = ibv_reg_mr(p.pd, p.a.memory, SIZE, IBV_ACCESS_LOCAL_WRITE);  // and keep it in a cache
  munmap(p.a.memory, SIZE);  // the cache does not hear of this
  map_at(p.a.memory);
  strcpy(p.a.memory, "new page");
  post_receive(&p.b, 1, 0, 16);
  post_send(&p.a, 2, 0, 16);  // the cache had "the" registration of this address
  // [/bug]
  struct ibv_wc wc = next(p.b.cq);
  printf("%s; the receiver got \"%s\"\n", status_name(wc.status), p.b.memory);
  return 0;
}
