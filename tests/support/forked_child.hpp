// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Runs a part of a test in a forked child, which must not touch what its parent owns.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace verbatim::test {

/// How the child ended, as waitpid() reports it. `body` may use EXPECT: a failure makes it exit
/// with 1.
template <class Body>
[[nodiscard]] int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    // Not exit(), because the child must not tear down the parent's objects and GoogleTest.
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) ADD_FAILURE() << "fork or wait failed";
  return status;
}

template <class Body>
void in_forked_child(Body body) {
  const int status = status_of_child(body);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
}

}  // namespace verbatim::test
