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

#include "support/completions.hpp"

namespace verbatim::test {

inline void let_steps_begin() {
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  raise(SIGSTOP);
}
inline void let_steps_end() { raise(SIGUSR1); }

/// Waits for let_steps_begin(). Returns false if processes cannot be traced here.
[[nodiscard]] inline bool wait_for_steps(pid_t process) {
  int status = 0;
  return waitpid(process, &status, __WALL) == process && WIFSTOPPED(status) &&
         WSTOPSIG(status) == SIGSTOP;
}

/// Whether its next instruction maps memory. Always false if we cannot tell.
[[nodiscard]] inline bool is_about_to_map([[maybe_unused]] pid_t process) {
#if defined(__x86_64__)
  user_regs_struct registers{};
  if (ptrace(PTRACE_GETREGS, process, nullptr, &registers) != 0) return false;
  if (registers.rax != SYS_mmap) return false;
  const long code = ptrace(PTRACE_PEEKTEXT, process, registers.rip, nullptr);
  return (code & 0xffff) == 0x050f;
#else
  return false;
#endif
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
    waitpid(thread, &status, __WALL);
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
