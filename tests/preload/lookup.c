// SPDX-License-Identifier: MIT OR Apache-2.0
// Not linked with libibverbs: looks up functions in every possible way. Those of libibverbs must be
// the ones that a linked program gets, and all others must be the same as without a preload.
#define _GNU_SOURCE  // RTLD_NEXT, dlvsym
#include <dlfcn.h>

#include "checks.h"

typedef void** Lister(int*);
int verbatim_test_depth(void);             // lookup_outer.c
int verbatim_test_depth_by_version(void);  // lookup_outer.c
#define VERB "ibv_get_device_list"
#define VERSION "IBVERBS_1.1"

static bool lists_devices(void* function) {
  int count = 0;
  return function != NULL && ((Lister*)function)(&count) != NULL && count > 0;
}

static void check_others(void) {
  CHECK("RTLD_NEXT is behind the caller", verbatim_test_depth() == 2);
  CHECK("RTLD_NEXT with a version is behind the caller", verbatim_test_depth_by_version() == 2);
  CHECK("RTLD_NEXT of the program", dlsym(RTLD_NEXT, "dlopen") != NULL);
  CHECK("RTLD_DEFAULT", dlsym(RTLD_DEFAULT, "verbatim_test_depth") == (void*)verbatim_test_depth);
  dlerror();
  CHECK("no such function", dlsym(RTLD_DEFAULT, "verbatim_test_nothing") == NULL);
  CHECK("dlerror names it", strstr(dlerror(), "verbatim_test_nothing") != NULL);
  void* const self = dlopen(NULL, RTLD_NOW);
  CHECK("the program's own handle", dlsym(self, "verbatim_test_depth") != NULL);
  // A verb that is not in libibverbs, in a library that intercepts it.
  void* const outer = dlopen("libpreload_outer.so", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE("a library that was linked", outer != NULL);
  int (*query)(void) = dlsym(outer, "ibv_query_ece");
  CHECK("another library's verb stays its own", query != NULL && query() == 4711);
}

int main(void) {
  check_others();
  void* const library = dlopen("libibverbs.so.1", RTLD_NOW);
  REQUIRE("dlopen", library != NULL);
  void* const ours = dlsym(RTLD_DEFAULT, VERB);
  CHECK("dlsym lists devices", lists_devices(dlsym(library, VERB)));
  CHECK("dlvsym lists devices", lists_devices(dlvsym(library, VERB, VERSION)));
  CHECK("RTLD_DEFAULT gives the same", ours == dlsym(library, VERB));
  CHECK("with a version, too", ours == dlvsym(library, VERB, VERSION));
  CHECK("a function that we do not have", dlsym(library, "ibv_node_type_str") != NULL);
  CHECK("one that needs no device", dlsym(library, "mult_to_ibv_rate") != NULL);
  dlerror();
  CHECK("no such verb", dlsym(library, "ibv_of_tomorrow") == NULL && dlerror() != NULL);
  CHECK("no such version", dlvsym(library, VERB, "IBVERBS_9.9") == NULL && dlerror() != NULL);
  void* const global = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
  CHECK("loaded for all", lists_devices(dlsym(global, VERB)));
  CHECK("loaded for all, RTLD_DEFAULT", lists_devices(dlsym(RTLD_DEFAULT, VERB)));
  check_others();
  return failures != 0;
}
