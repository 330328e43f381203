// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: the limit of a shared receive queue is told once. It has to be armed again.
#include <poll.h>

#include "verbs.h"

static bool event_within(struct ibv_context* context, int limit_ms) {
  struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
  if (poll(&ready, 1, limit_ms) != 1) return false;
  struct ibv_async_event event;
  NEED(ibv_get_async_event(context, &event) == 0);
  const bool limit = event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
  ibv_ack_async_event(&event);
  return limit || event_within(context, limit_ms);
}

static void fill(struct side* b, struct ibv_srq* srq, int count) {
  for (int i = 0; i < count; ++i) {
    struct ibv_sge part = part_of(b, 0, 64);
    struct ibv_recv_wr receive = {.sg_list = &part, .num_sge = 1}, *bad;
    NEED(ibv_post_srq_recv(srq, &receive, &bad) == 0);
  }
}

static void drain(struct pair* p, int count) {
  for (int i = 0; i < count; ++i) {
    NEED(post_send(&p->a, 1, 0, 8) == 0);
    NEED(next(p->a.cq).status == IBV_WC_SUCCESS && next(p->b.cq).status == IBV_WC_SUCCESS);
  }
}

int main(void) {
  struct setup setup = usual();
  struct pair p = make_pair(&setup);
  struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 16, .max_sge = 1}};
  struct ibv_srq* srq = ibv_create_srq(p.pd, &srq_attr);
  NEED(srq != NULL);
  struct ibv_qp_init_attr attr = {
      .send_cq = p.b.cq, .recv_cq = p.b.cq, .srq = srq, .cap = setup.cap, .qp_type = IBV_QPT_RC};
  p.b.qp = ibv_create_qp(p.pd, &attr);
  connect_sides(&p.a, &p.b, &setup);
  // [bug]
  fill(&p.b, srq, 8);
  struct ibv_srq_attr limit = {.srq_limit = 4};
  NEED(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);  // once, at the start of the program
  drain(&p, 6);
  printf("the first time: %s\n", event_within(p.context, 10000) ? "event" : "no event");
  fill(&p.b, srq, 6);
  drain(&p, 6);
  printf("the second time: %s\n", event_within(p.context, 300) ? "event" : "no event");
  // [/bug]
  NEED(ibv_query_srq(srq, &limit) == 0);
  printf("srq_limit is now %u\n", limit.srq_limit);
  return 0;
}
