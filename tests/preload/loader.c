// SPDX-License-Identifier: MIT OR Apache-2.0
// Not linked with libibverbs: loads it at run time, and looks up its functions by version, like
// libraries for collective communication. An LD_PRELOAD of other functions does not reach it.
#define _GNU_SOURCE  // dlvsym
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include "checks.h"

static void* library;

static void* find(const char* name, const char* version) {
  void* const found = dlvsym(library, name, version);
  CHECK(name, found != NULL);
  if (found == NULL) exit(1);
  return found;
}

int main(void) {
  library = dlopen("libibverbs.so.1", RTLD_NOW);
  REQUIRE("dlopen", library != NULL);
  struct ibv_device** (*get_list)(int*) = find("ibv_get_device_list", "IBVERBS_1.1");
  void (*free_list)(struct ibv_device**) = find("ibv_free_device_list", "IBVERBS_1.1");
  struct ibv_context* (*open_device)(struct ibv_device*) = find("ibv_open_device", "IBVERBS_1.1");
  int (*close_device)(struct ibv_context*) = find("ibv_close_device", "IBVERBS_1.1");
  struct ibv_pd* (*alloc_pd)(struct ibv_context*) = find("ibv_alloc_pd", "IBVERBS_1.1");
  int (*dealloc_pd)(struct ibv_pd*) = find("ibv_dealloc_pd", "IBVERBS_1.1");
  struct ibv_mr* (*reg_mr)(struct ibv_pd*, void*, size_t, uint64_t, unsigned) =
      find("ibv_reg_mr_iova2", "IBVERBS_1.8");
  int (*dereg_mr)(struct ibv_mr*) = find("ibv_dereg_mr", "IBVERBS_1.1");
  int (*query_port)(struct ibv_context*, uint8_t, struct ibv_port_attr*) =
      find("ibv_query_port", "IBVERBS_1.1");
  const char* (*event_text)(enum ibv_event_type) = find("ibv_event_type_str", "IBVERBS_1.1");

  int count = 0;
  struct ibv_device** const list = get_list(&count);
  REQUIRE("a device", list != NULL && count > 0);
  struct ibv_context* const context = open_device(list[0]);
  REQUIRE("opens", context != NULL);
  free_list(list);
  struct ibv_port_attr port = {0};
  CHECK("port is active", query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
  struct ibv_pd* const domain = alloc_pd(context);
  REQUIRE("has a domain", domain != NULL);
  static char memory[4096];
  struct ibv_mr* const region =
      reg_mr(domain, memory, sizeof memory, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
  CHECK("registers memory", region != NULL && dereg_mr(region) == 0);
  CHECK("has texts", event_text(IBV_EVENT_PORT_ACTIVE) != NULL);
  CHECK("frees the domain", dealloc_pd(domain) == 0);
  CHECK("closes", close_device(context) == 0);
  return failures != 0;
}
