// SPDX-License-Identifier: MIT OR Apache-2.0
// Shows: the state of an operation dies before its completion comes. wr_id then points to the state
// of another operation, which is marked as done.
#include "verbs.h"

struct operation {
  char name[32];
  bool done;
};

static struct operation* begin(const char* name) {
  struct operation* operation = malloc(sizeof *operation);
  *operation = (struct operation){.done = false};
  strcpy(operation->name, name);
  return operation;
}

int main(void) {
  struct pair p = connected(usual());
  // [bug]
  struct operation* first = begin("first");
  post_receive(&p.b, (uintptr_t)first, 0, 16);
  free(first);  // nobody wants to know any more; the device was not asked
  struct operation* second = begin("second");  // nothing was posted for it

  post_send(&p.a, 0, 0, 16);
  struct ibv_wc wc = next(p.b.cq);
  ((struct operation*)(uintptr_t)wc.wr_id)->done = true;
  // [/bug]
  printf("%s is %s\n", second->name, second->done ? "done, though it never began" : "not done");
  return 0;
}
