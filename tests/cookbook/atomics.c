// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: two ways in which an atomic fails.
#include "verbs.h"

static const char* add(size_t offset, int access) {
  struct pair p = connected(usual());
  p.b.mr = ibv_reg_mr(p.pd, p.b.memory, SIZE, access);
  // [bug]
  struct ibv_sge part = part_of(&p.a, 0, 8);
  struct ibv_send_wr work = {
      .sg_list = &part,
      .num_sge = 1,
      .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
      .send_flags = IBV_SEND_SIGNALED,
      .wr.atomic = {
          .remote_addr = (uintptr_t)p.b.memory + offset, .compare_add = 1, .rkey = p.b.mr->rkey}};
  struct ibv_send_wr* bad;
  const int error = ibv_post_send(p.a.qp, &work, &bad);
  // [/bug]
  return error != 0 ? error_name(error) : status_name(next(p.a.cq).status);
}

int main(void) {
  printf("aligned, with the right: %s\n", add(8, ALL_ACCESS));
  printf("not aligned: %s\n", add(4, ALL_ACCESS));
  printf("no IBV_ACCESS_REMOTE_ATOMIC: %s\n",
         add(8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  return 0;
}
