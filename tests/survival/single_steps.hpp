// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Another process, one instruction at a time, so that it can be killed at any point of a
/// call.
///
/// The process calls let_steps_begin() and, after the call, let_steps_end(); its parent, in the
/// thread that started it, takes steps between the two. Only the calling thread is stepped. Or the
/// parent holds any thread by itself: hold(), let_go().
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "support/completions.hpp"
#include "support/require.hpp"
#include "survival/contained.hpp"

namespace verbatim::test {

inline void let_steps_begin() {
  static const bool is_traced = ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0;
  if (!is_traced) std::_Exit(kCannot);
  raise(SIGSTOP);
}
inline void let_steps_end() { raise(SIGUSR1); }

/// Waits for let_steps_begin(). Returns false if processes cannot be traced here.
[[nodiscard]] inline bool wait_for_steps(pid_t process) {
  int status = 0;
  if (waitpid(process, &status, __WALL) != process) give_up("waitpid", Where::current());
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannot) return false;
  if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
    give_up("the child did not get to its steps: " + describe_end(status), Where::current());
  return true;
}

/// Runs it to the beginning or the end of a system call. Returns false if let_steps_end() comes
/// first.
[[nodiscard]] inline bool run_to_system_call(pid_t process) {
  int status = 0;
  return ptrace(PTRACE_SYSCALL, process, nullptr, nullptr) == 0 &&
         waitpid(process, &status, __WALL) == process && WIFSTOPPED(status) &&
         WSTOPSIG(status) == SIGTRAP;
}

/// Runs it until it has mapped memory. Returns false if let_steps_end() comes first, or if we
/// cannot tell.
[[nodiscard]] inline bool run_to_mapping([[maybe_unused]] pid_t process) {
#if defined(__x86_64__)
  while (run_to_system_call(process)) {
    user_regs_struct registers{};
    if (ptrace(PTRACE_GETREGS, process, nullptr, &registers) != 0) return false;
    if (!run_to_system_call(process)) return false;
    if (registers.orig_rax == SYS_mmap) return true;
  }
#endif
  return false;
}

/// Takes this many steps, or fewer if let_steps_end() comes first. Returns how many there were.
[[nodiscard]] inline unsigned step(pid_t process, unsigned limit) {
  for (unsigned taken = 0; taken < limit; ++taken) {
    int status = 0;
    if (ptrace(PTRACE_SINGLESTEP, process, nullptr, nullptr) != 0 ||
        waitpid(process, &status, __WALL) != process || !WIFSTOPPED(status) ||
        WSTOPSIG(status) != SIGTRAP)
      return taken;
  }
  return limit;
}

/// Like step(), for a thread that may go to sleep: it is then stopped there.
inline void step_or_sleep(pid_t thread, unsigned limit) {
  for (unsigned taken = 0; taken < limit; ++taken) {
    int status = 0;
    if (ptrace(PTRACE_SINGLESTEP, thread, nullptr, nullptr) != 0) return;
    const auto is_stopped = [&] { return waitpid(thread, &status, __WALL | WNOHANG) == thread; };
    if (eventually(is_stopped, std::chrono::milliseconds{200})) continue;
    syscall(SYS_tkill, thread, SIGSTOP);
    // It may have made its step meanwhile. Then the signal is still to come, and would stop the
    // whole process when the thread is let go.
    while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status) &&
           WSTOPSIG(status) != SIGSTOP)
      if (ptrace(PTRACE_CONT, thread, nullptr, nullptr) != 0) return;
    return;
  }
}

/// Lets it run to let_steps_end() and beyond.
inline void run_to_end_of_steps(pid_t process) {
  int status = 0;
  ptrace(PTRACE_CONT, process, nullptr, nullptr);
  waitpid(process, &status, __WALL);
  ptrace(PTRACE_CONT, process, nullptr, nullptr);  // Without the signal.
}

/// Stops a thread where it is, or where it sleeps. Returns false if that is not permitted.
[[nodiscard]] inline bool hold(pid_t thread) {
  int status = 0;
  return ptrace(PTRACE_ATTACH, thread, nullptr, nullptr) == 0 &&
         waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status);
}
inline void let_go(pid_t thread) { ptrace(PTRACE_DETACH, thread, nullptr, nullptr); }

}  // namespace verbatim::test
