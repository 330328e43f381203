/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The reference of ./bench bootstrap: the least that a program under mpirun has to do so that every
 * rank gets a record of every other rank. PMIx init, put, fence, get of all, finalize, and nothing
 * else: no RDMA, no connection, no MPI. It stays the same when we get faster. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>

#define RECORD "a region: address, length, key"  /* About what a rank sends. */

static int failed(const char* what, pmix_status_t status) {
  fprintf(stderr, "bootstrap_reference: %s: %d\n", what, status);
  return 1;
}

int main(void) {
  pmix_proc_t self;
  pmix_status_t status = PMIx_Init(&self, NULL, 0);
  if (status != PMIX_SUCCESS) return failed("PMIx_Init", status);

  pmix_proc_t other = self;
  other.rank = PMIX_RANK_WILDCARD;
  pmix_value_t* value = NULL;
  status = PMIx_Get(&other, PMIX_JOB_SIZE, NULL, 0, &value);
  if (status != PMIX_SUCCESS) return failed("PMIx_Get of the size", status);
  const pmix_rank_t world = value->data.uint32;
  PMIX_VALUE_RELEASE(value);

  char record[] = RECORD;
  pmix_value_t mine;
  memset(&mine, 0, sizeof mine);
  mine.type = PMIX_BYTE_OBJECT;
  mine.data.bo.bytes = record;
  mine.data.bo.size = sizeof record;
  status = PMIx_Put(PMIX_GLOBAL, "record", &mine);
  if (status == PMIX_SUCCESS) status = PMIx_Commit();
  if (status != PMIX_SUCCESS) return failed("PMIx_Put", status);

  pmix_info_t collect;
  bool yes = true;
  PMIX_INFO_CONSTRUCT(&collect);
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  status = PMIx_Fence(&other, 1, &collect, 1);
  if (status != PMIX_SUCCESS) return failed("PMIx_Fence", status);

  for (other.rank = 0; other.rank < world; ++other.rank) {
    if (other.rank == self.rank) continue;
    status = PMIx_Get(&other, "record", NULL, 0, &value);
    if (status != PMIX_SUCCESS) return failed("PMIx_Get", status);
    if (value->data.bo.size != sizeof record) return failed("a record's size", -1);
    PMIX_VALUE_RELEASE(value);
  }
  return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
