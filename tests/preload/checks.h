// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks of a C program, one line of output for each: "ok NAME" or "FAIL NAME: why".
#ifndef VERBATIM_TESTS_PRELOAD_CHECKS_H
#define VERBATIM_TESTS_PRELOAD_CHECKS_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static inline bool check_true(bool holds, const char* name, const char* why, int line) {
  if (holds) {
    printf("ok %s\n", name);
  } else {
    printf("FAIL %s: line %d: %s; errno %d (%s)\n", name, line, why, errno, strerror(errno));
    ++failures;
  }
  fflush(stdout);  // What was said must not be lost in a crash.
  errno = 0;
  return holds;
}

#define CHECK(name, condition) check_true((condition), name, #condition, __LINE__)
// The rest makes no sense without it.
#define REQUIRE(name, condition)          \
  do {                                    \
    if (!CHECK(name, condition)) exit(1); \
  } while (0)
// A call that returns a pointer fails with this errno; one that returns a number returns it.
#define CHECK_NULL(name, call, error) CHECK(name, (errno = 0, (call) == NULL && errno == (error)))
#define CHECK_CODE(name, call, error) CHECK(name, (call) == (error))
#define CHECK_MINUS(name, call, error) CHECK(name, (errno = 0, (call) == -1 && errno == (error)))

#endif
