// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a datagram begins 40 bytes into the receive buffer, and a buffer without room for them
// gets nothing.
#include "verbs.h"

static void ready(struct ibv_qp* qp, uint32_t qkey) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
  NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
  attr.qp_state = IBV_QPS_RTR;
  NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
  attr.qp_state = IBV_QPS_RTS;
  NEED(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

static const char* send_datagram(struct pair* p, struct ibv_ah* ah, uint32_t qkey) {
  struct ibv_sge part = part_of(&p->a, 0, 8);
  struct ibv_send_wr send = {.sg_list = &part,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {ah, p->b.qp->qp_num, qkey}},
                     *bad;
  NEED(ibv_post_send(p->a.qp, &send, &bad) == 0);
  return status_name(next(p->a.cq).status);
}

static void tell(struct pair* p, const char* what, const char* sent) {
  struct ibv_wc wc;
  printf("%s: send %s, ", what, sent);
  if (!poll_within(p->b.cq, 0.2, &wc))
    printf("receive nothing\n");
  else if (wc.status != IBV_WC_SUCCESS)
    printf("receive %s\n", status_name(wc.status));
  else
    printf("byte_len %u, the text is at %d\n", wc.byte_len,
           (int)((char*)memmem(p->b.memory, SIZE, "datagram", 8) - p->b.memory));
}

int main(void) {
  struct setup setup = usual();
  setup.type = IBV_QPT_UD;
  struct pair p = make_pair(&setup);
  ready(p.a.qp, 0x1111);
  ready(p.b.qp, 0x1111);
  struct ibv_ah_attr address = own_address(p.context);
  struct ibv_ah* ah = ibv_create_ah(p.pd, &address);
  NEED(ah != NULL);
  memcpy(p.a.memory, "datagram", 8);
  // [bug]
  post_receive(&p.b, 1, 0, 64);
  tell(&p, "room for 64", send_datagram(&p, ah, 0x1111));
  post_receive(&p.b, 2, 0, 8);  // as long as the payload
  tell(&p, "another Q_Key", send_datagram(&p, ah, 0x2222));
  tell(&p, "room for 8", send_datagram(&p, ah, 0x1111));
  // [/bug]
  return 0;
}
