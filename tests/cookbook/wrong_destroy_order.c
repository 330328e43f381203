// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: parents cannot go before their children, and who does not look at results does not notice.
#include "verbs.h"

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  printf("ibv_dealloc_pd with queue pairs: %s\n", error_name(ibv_dealloc_pd(p.pd)));
  printf("ibv_destroy_cq with a queue pair: %s\n", error_name(ibv_destroy_cq(p.a.cq)));
  // [/bug]
  ibv_destroy_qp(p.a.qp);
  ibv_destroy_qp(p.b.qp);
  printf("ibv_dealloc_pd with regions: %s\n", error_name(ibv_dealloc_pd(p.pd)));
  ibv_dereg_mr(p.a.mr);
  ibv_dereg_mr(p.b.mr);
  printf("after all of them: %s\n", error_name(ibv_dealloc_pd(p.pd)));
  return 0;
}
