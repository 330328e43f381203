// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: an index into the table of GIDs that is wrong in two ways. VERBATIM_SOFT_LINK=eth
#include "verbs.h"

int main(void) {
  struct setup setup = usual();
  struct pair p = make_pair(&setup);
  NEED(to_init(p.a.qp, &setup) == 0 && to_init(p.b.qp, &setup) == 0);
  // [bug]
  setup.attr.ah_attr = own_address(p.context);
  setup.attr.ah_attr.grh.sgid_index = 77;  // no such entry
  printf("an index without a GID: %s\n", error_name(to_rtr(p.a.qp, p.b.qp, &setup)));
  setup.attr.ah_attr = own_address(p.context);
  setup.attr.ah_attr.grh.dgid.raw[15] ^= 1;  // a GID, but not one of the peer's
  printf("the GID of nobody: %s\n", error_name(to_rtr(p.a.qp, p.b.qp, &setup)));
  NEED(to_rts(p.a.qp, &setup) == 0);
  post_send(&p.a, 1, 0, 8);
  printf("send: %s\n", status_name(next(p.a.cq).status));
  // [/bug]
  return 0;
}
