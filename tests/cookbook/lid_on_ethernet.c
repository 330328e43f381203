// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: a path by LID on an Ethernet port. VERBATIM_SOFT_LINK=eth
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  struct pair p = make_pair(&setup);
  NEED(to_init(p.a.qp, &setup) == 0);
  // [bug]
  struct ibv_port_attr port;
  NEED(ibv_query_port(p.context, 1, &port) == 0);
  setup.attr.ah_attr = (struct ibv_ah_attr){.dlid = port.lid, .port_num = 1};  // no GRH
  printf("LID %u; to RTR: %s\n", port.lid, error_name(to_rtr(p.a.qp, p.b.qp, &setup)));
  // [/bug]
  return 0;
}
