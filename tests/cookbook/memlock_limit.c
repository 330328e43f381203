// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: registering more than RLIMIT_MEMLOCK lets an ordinary user lock.
#include <sys/resource.h>

#include "verbs.h"

int main(void) {
  struct ibv_pd* pd = ibv_alloc_pd(open_device());
  if (geteuid() == 0) NEED(seteuid(65534) == 0);  // root may lock without limit
  // [bug]
  struct rlimit limit = {65536, 65536};
  setrlimit(RLIMIT_MEMLOCK, &limit);
  struct ibv_mr* mr = ibv_reg_mr(pd, malloc(1 << 20), 1 << 20, IBV_ACCESS_LOCAL_WRITE);
  printf("1 MiB with a limit of 64 KiB: %s\n", mr != NULL ? "registered" : error_name(errno));
  // [/bug]
  return 0;
}
