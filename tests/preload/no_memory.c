// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that gets no memory: one allocation after another fails, each in a process of its own.
// A verb then fails with ENOMEM, or works without it; it never ends the program.
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

// In place of the C library's, for everything in this process.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static long allocations, failing;  // The one that fails; 0: none.

static bool fails(void) {
  if (failing == 0 || __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED) != failing)
    return false;
  errno = ENOMEM;
  return true;
}
void* malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
void* aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : __libc_memalign(alignment, size);
}
int posix_memalign(void** place, size_t alignment, size_t size) {
  *place = fails() ? NULL : __libc_memalign(alignment, size);
  return *place != NULL ? 0 : ENOMEM;
}

// Returns 0, or the errno of the first verb that fails.
static int use_device(void) {
  static char memory[64];
  int count = 0;
  struct ibv_device** const list = ibv_get_device_list(&count);
  if (list == NULL) return errno;
  if (count == 0) return ENODEV;
  struct ibv_context* const context = ibv_open_device(list[0]);
  const int not_opened = errno;
  ibv_free_device_list(list);
  if (context == NULL) return not_opened;
  struct ibv_pd* const domain = ibv_alloc_pd(context);
  if (domain == NULL) return errno;
  struct ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  if (channel == NULL) return errno;
  struct ibv_cq* const queue = ibv_create_cq(context, 16, NULL, channel, 0);
  if (queue == NULL) return errno;
  struct ibv_mr* const region = ibv_reg_mr(domain, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  if (region == NULL) return errno;
  struct ibv_srq_init_attr shared = {.attr = {.max_wr = 8, .max_sge = 1}};
  struct ibv_srq* const receives = ibv_create_srq(domain, &shared);
  if (receives == NULL) return errno;
  struct ibv_qp_init_attr options = {.send_cq = queue,
                                     .recv_cq = queue,
                                     .srq = receives,
                                     .cap = {.max_send_wr = 8, .max_send_sge = 1},
                                     .qp_type = IBV_QPT_RC};
  struct ibv_qp* const queue_pair = ibv_create_qp(domain, &options);
  if (queue_pair == NULL) return errno;
  int failed = ibv_destroy_qp(queue_pair);
  if (failed == 0) failed = ibv_destroy_srq(receives);
  if (failed == 0) failed = ibv_dereg_mr(region);
  if (failed == 0) failed = ibv_destroy_cq(queue);
  if (failed == 0) failed = ibv_destroy_comp_channel(channel);
  if (failed == 0) failed = ibv_dealloc_pd(domain);
  return failed != 0 ? failed : ibv_close_device(context);
}

enum { DONE = 10, NO_MEMORY, ENOUGH };  // Exit statuses of a child; ENOUGH: it needs no more.

static int end_without(long allocation) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    failing = allocation;
    const int failed = use_device();
    if (allocations < allocation) _exit(failed == 0 ? ENOUGH : failed);
    _exit(failed == 0 ? DONE : failed == ENOMEM ? NO_MEMORY : failed);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return -WTERMSIG(status);
  return WEXITSTATUS(status);
}

int main(void) {
  long allocation = 0;
  int end = DONE;
  while (end == DONE || end == NO_MEMORY) end = end_without(++allocation);
  if (end != ENOUGH)
    printf("without allocation %ld it ended with %d (signals are negative)\n", allocation, end);
  CHECK("an allocation that fails", end == ENOUGH);
  CHECK("allocations that were tried", allocation > 20);
  return failures != 0;
}
