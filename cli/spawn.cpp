// SPDX-License-Identifier: MIT OR Apache-2.0
#include "spawn.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace verbatim::cli {
namespace {

constexpr int kFirstOfOurs = 3;

/// Runs in the child, which still shares our memory: only system calls. Returns errno.
int become(const Child& child, pid_t parent) noexcept {
  if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (getppid() != parent) return ECHILD;  // Too late: the parent is gone, so no signal would come.
  if (dup2(child.input, STDIN_FILENO) < 0 || dup2(child.output, STDOUT_FILENO) < 0 ||
      dup2(child.errors, STDERR_FILENO) < 0)
    return errno;
  // Not all of our descriptors are close-on-exec: libraries have their own. An old kernel lacks
  // this call.
  static_cast<void>(close_range(kFirstOfOurs, UINT_MAX, 0));
  if (setrlimit(RLIMIT_NOFILE, &child.descriptors) != 0 ||
      sigaction(SIGPIPE, &child.on_pipe, nullptr) != 0 ||
      sigprocmask(SIG_SETMASK, &child.signals, nullptr) != 0)
    return errno;
  execvpe(child.arguments[0], child.arguments, child.environment);
  return errno;
}

}  // namespace

pid_t spawn(const Child& child) noexcept {
  // Page tables are not copied, and the child can report what failed.
  volatile int failed = 0;
  const pid_t parent = getpid();
  // NOLINTNEXTLINE(bugprone-unsafe-functions): posix_spawn cannot ask for our end to be told.
  const pid_t pid = vfork();
  if (pid == 0) {
    failed = become(child, parent);
    _exit(127);
  }
  if (pid < 0) return -errno;
  if (failed == 0) return pid;
  waitpid(pid, nullptr, 0);
  return -failed;
}

}  // namespace verbatim::cli
