/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The bare verbs in C: what every other case is compared with. */
#ifndef VERBATIM_BENCHMARKS_OVERHEAD_RAW_H
#define VERBATIM_BENCHMARKS_OVERHEAD_RAW_H

#include <infiniband/verbs.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a C program keeps per connection. */
struct raw_connection {
  struct ibv_qp* qp;
  struct ibv_cq* cq;
  struct ibv_mr* mr;
  void* message;
  size_t message_bytes;
};

/* Sends the message `operations` times, and waits for each. */
void raw_send(const struct raw_connection* connection, long operations);
/* In chains of 16 with one signal. */
void raw_send_chain(const struct raw_connection* connection, long operations);

#ifdef __cplusplus
}
#endif
#endif
