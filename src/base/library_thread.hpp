// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A thread of the library, which is a guest in the program.
///
/// Signals are for the program's threads. A thread that the program does not know of must not take
/// one that is meant for sigwait() or a signalfd: it would end the program.
#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace verbatim {

/// While it lives, the calling thread takes no signals; a thread that it starts never does.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    // Other processes do not send these. They are the thread's own faults, and end it if blocked.
    for (const int own : {SIGBUS, SIGSEGV, SIGILL, SIGFPE}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Like std::thread's constructor, and may throw like it.
template <class Function>
[[nodiscard]] std::thread start_library_thread(Function&& function) {
  const SignalsBlocked blocked;
  return std::thread{std::forward<Function>(function)};
}

}  // namespace verbatim
