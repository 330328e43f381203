// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: more reads at a time than the peer answers, and none at all.
#include "verbs.h"

static void try_reads(uint8_t max_rd_atomic, uint8_t max_dest_rd_atomic) {
  struct setup setup = usual();
  // [bug]
  setup.attr.max_rd_atomic = max_rd_atomic;            // how many reads we have under way
  setup.attr.max_dest_rd_atomic = max_dest_rd_atomic;  // how many the peer answers at a time
  struct pair p = connected(setup);
  for (int i = 0; i < 4; ++i) post_rdma(&p.a, &p.b, IBV_WR_RDMA_READ, SIZE);
  struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
  int done = 0;
  while (done < 4 && poll_within(p.a.cq, 1, &wc) && wc.status == IBV_WC_SUCCESS) ++done;
  // [/bug]
  printf("max_rd_atomic %d, max_dest_rd_atomic %d: ", max_rd_atomic, max_dest_rd_atomic);
  printf("%s\n", wc.status != IBV_WC_SUCCESS ? status_name(wc.status)
                 : done == 4                 ? "all reads are done"
                                             : "no completion");
}

int main(void) {
  try_reads(4, 4);
  try_reads(4, 1);
  try_reads(1, 0);
  try_reads(0, 1);
  return 0;
}
