// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A part of a test in a forked child: a crash or a hang there is a failed test here.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "support/completions.hpp"

namespace verbatim::test {

/// The exit status of a child that cannot do its part here; see cannot().
inline constexpr int kCannot = 77;

/// How long a child may take that has much to do, or executes another process step by step: on a
/// busy machine, each of ten thousand steps waits for the processor. A good run takes seconds.
inline constexpr std::chrono::seconds kStuck{600};

/// In a child: ends it, and prints why the test is skipped.
[[noreturn]] inline void cannot(const std::string& why) {
  std::fprintf(stderr, "cannot: %s: %s\n", why.c_str(), std::strerror(errno));
  std::_Exit(kCannot);
}

/// In a child whose threads cannot be ended: ends it as a failure.
[[noreturn]] inline void end_failed(const std::string& why) {
  ADD_FAILURE() << why;
  std::fflush(nullptr);
  std::_Exit(1);
}

/// Forks a child that runs `body`, with EXPECT and require() as anywhere. The calling thread should
/// be the only one, and no device should be open.
template <class Body>
[[nodiscard]] pid_t start_contained(Body body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    body();
  } catch (const std::exception& failure) {
    ADD_FAILURE() << failure.what();
  }
  std::fflush(nullptr);
  // Not exit(), because the child must not tear down the parent's objects and GoogleTest.
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

/// The wait status of a child. If it takes longer, it is killed, and the result is 0x7f00 +
/// SIGALRM.
[[nodiscard]] inline int status_within(pid_t child, std::chrono::seconds limit) {
  int status = -1;
  if (eventually([&] { return waitpid(child, &status, WNOHANG) == child; }, limit)) return status;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0x7f00 | SIGALRM;
}

[[nodiscard]] inline std::string describe_end(int status) {
  if (status == (0x7f00 | SIGALRM)) return "it did not end in time";
  if (WIFSIGNALED(status)) return std::string{"it died of "} + strsignal(WTERMSIG(status));
  return "it exited with " + std::to_string(WEXITSTATUS(status));
}

/// Runs `body` in a child. Skips the test if the child cannot do it.
#define VERBATIM_CONTAINED(limit, ...)                                                             \
  do {                                                                                             \
    const int contained_status =                                                                   \
        ::verbatim::test::status_within(::verbatim::test::start_contained(__VA_ARGS__), limit);    \
    if (WIFEXITED(contained_status) && WEXITSTATUS(contained_status) == ::verbatim::test::kCannot) \
      GTEST_SKIP() << "not permitted here; the line above says what";                              \
    EXPECT_EQ(contained_status, 0) << ::verbatim::test::describe_end(contained_status);            \
  } while (false)

}  // namespace verbatim::test
