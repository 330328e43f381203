/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "raw.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void __attribute__((cold, noinline, noreturn)) report(const char* verb, int error) {
  fprintf(stderr, "raw: %s failed: %d\n", verb, error);
  abort();
}

static void __attribute__((cold, noinline, noreturn)) report_completion(const struct ibv_wc* wc) {
  fprintf(stderr, "raw: request %llu completed with status %d\n", (unsigned long long)wc->wr_id,
          (int)wc->status);
  abort();
}

/* As an expert writes it: sets the six fields that a send needs, not all 128 bytes. */
void raw_send(const struct raw_connection* connection, long operations) {
  for (long i = 0; i < operations; ++i) {
    struct ibv_sge sge;
    sge.addr = (uintptr_t)connection->message;
    sge.length = (uint32_t)connection->message_bytes;
    sge.lkey = connection->mr->lkey;

    struct ibv_send_wr wr;
    struct ibv_send_wr* rejected;
    wr.wr_id = (uint64_t)i;
    wr.next = NULL;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    const int failed = ibv_post_send(connection->qp, &wr, &rejected);
    if (failed != 0) report("ibv_post_send", failed);

    struct ibv_wc wc;
    int count;
    do {
      count = ibv_poll_cq(connection->cq, 1, &wc);
    } while (count == 0);
    if (count < 0) report("ibv_poll_cq", count);
    if (wc.status != IBV_WC_SUCCESS || wc.wr_id != (uint64_t)i) report_completion(&wc);
  }
}

void raw_send_chain(const struct raw_connection* connection, long operations) {
  enum { kChain = 16 };
  for (long i = 0; i < operations; i += kChain) {
    struct ibv_sge sges[kChain];
    struct ibv_send_wr wrs[kChain];
    struct ibv_send_wr* rejected;
    for (int j = 0; j < kChain; ++j) {
      sges[j].addr = (uintptr_t)connection->message;
      sges[j].length = (uint32_t)connection->message_bytes;
      sges[j].lkey = connection->mr->lkey;
      wrs[j].wr_id = (uint64_t)(i + j);
      wrs[j].next = j + 1 < kChain ? &wrs[j + 1] : NULL;
      wrs[j].sg_list = &sges[j];
      wrs[j].num_sge = 1;
      wrs[j].opcode = IBV_WR_SEND;
      wrs[j].send_flags = j + 1 < kChain ? 0 : IBV_SEND_SIGNALED;
    }
    const int failed = ibv_post_send(connection->qp, wrs, &rejected);
    if (failed != 0) report("ibv_post_send", failed);

    struct ibv_wc wc;
    int count;
    do {
      count = ibv_poll_cq(connection->cq, 1, &wc);
    } while (count == 0);
    if (count < 0) report("ibv_poll_cq", count);
    if (wc.status != IBV_WC_SUCCESS || wc.wr_id != (uint64_t)(i + kChain - 1))
      report_completion(&wc);
  }
}
