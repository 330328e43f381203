// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that wait for an event of the device, and are cancelled: many programs end their event
// thread in this way. The stack is unwound through the library, which cleans up; the device keeps
// working.
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"

static struct ibv_context* context;
static struct ibv_comp_channel* channel;
static volatile pid_t waiting;
static volatile bool cleaned;

static void clean_up(void* nothing) {
  (void)nothing;
  cleaned = true;
}

static void* wait_for_completions(void* nothing) {
  struct ibv_cq* queue;
  void* user;
  waiting = (pid_t)syscall(SYS_gettid);
  pthread_cleanup_push(clean_up, NULL);
  while (ibv_get_cq_event(channel, &queue, &user) == 0) ibv_ack_cq_events(queue, 1);
  pthread_cleanup_pop(0);
  return nothing;
}

static void* wait_for_events(void* nothing) {
  struct ibv_async_event event;
  waiting = (pid_t)syscall(SYS_gettid);
  pthread_cleanup_push(clean_up, NULL);
  while (ibv_get_async_event(context, &event) == 0) ibv_ack_async_event(&event);
  pthread_cleanup_pop(0);
  return nothing;
}

// It is cancelled before it calls other verbs, which are no cancellation points.
static void* work_on(void* nothing) {
  struct ibv_device* const device = context->device;
  pthread_cancel(pthread_self());
  struct ibv_context* const other = ibv_open_device(device);
  struct ibv_pd* const domain = ibv_alloc_pd(other);
  struct ibv_comp_channel* const own = ibv_create_comp_channel(other);
  cleaned = ibv_destroy_comp_channel(own) == 0 && ibv_dealloc_pd(domain) == 0 &&
            ibv_close_device(other) == 0;
  pthread_testcancel();
  return nothing;
}

// The kernel reports for each thread whether it sleeps.
static bool sleeps(pid_t thread) {
  char path[64], state = '?';
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  FILE* const file = fopen(path, "r");
  if (file == NULL) return false;
  if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = '?';
  fclose(file);
  return state == 'S';
}

static void* cancel(void* (*function)(void*), bool once_asleep) {
  pthread_t thread;
  waiting = 0;
  cleaned = false;
  if (pthread_create(&thread, NULL, function, NULL) != 0) return NULL;
  const struct timespec pause = {.tv_nsec = 1000000};
  while (once_asleep && !(waiting != 0 && sleeps(waiting)))
    nanosleep(&pause, NULL);  // wait: between two looks
  pthread_cancel(thread);
  void* result = NULL;
  pthread_join(thread, &result);
  return result;
}

int main(void) {
  alarm(60);  // A thread that is not cancelled waits for ever.
  struct ibv_device** const list = ibv_get_device_list(NULL);
  REQUIRE("a device", list != NULL && list[0] != NULL);
  context = ibv_open_device(list[0]);
  REQUIRE("opens", context != NULL);
  ibv_free_device_list(list);
  channel = ibv_create_comp_channel(context);
  REQUIRE("has a channel", channel != NULL);
  CHECK("not cancelled in other verbs", cancel(work_on, false) == PTHREAD_CANCELED && cleaned);
  CHECK("cancelled in get_cq_event",
        cancel(wait_for_completions, true) == PTHREAD_CANCELED && cleaned);
  CHECK("cancelled in get_async_event",
        cancel(wait_for_events, true) == PTHREAD_CANCELED && cleaned);
  for (int i = 0; i < 100; ++i)
    if (cancel(i % 2 == 0 ? wait_for_completions : wait_for_events, false) != PTHREAD_CANCELED)
      REQUIRE("cancelled at any time", false);
  CHECK("cancelled at any time", true);
  CHECK_CODE("destroys the channel", ibv_destroy_comp_channel(channel), 0);
  CHECK_CODE("closes", ibv_close_device(context), 0);
  return failures != 0;
}
