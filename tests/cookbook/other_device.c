// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: the key of a region that was registered with another device.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  NEED(count == 2);
  struct ibv_context* second = ibv_open_device(list[1]);
  p.b.mr = ibv_reg_mr(ibv_alloc_pd(second), p.b.memory, SIZE, ALL_ACCESS);
  post_rdma(&p.a, &p.b, IBV_WR_RDMA_WRITE, 8);
  printf("write with a key of the other device: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
