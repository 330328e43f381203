// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Starts a program as a child that does not outlive us.
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

namespace verbatim::cli {

/// What a child gets. It has no descriptors but these three, and is the leader of a process group
/// of its own, so that what it starts can be ended with it.
struct Child {
  char* const* arguments;    ///< Ends with nullptr. The first is looked up in PATH.
  char* const* environment;  ///< Ends with nullptr.
  int input;
  int output;
  int errors;
  sigset_t signals;           ///< Its signal mask.
  struct sigaction on_pipe;   ///< What it does at SIGPIPE.
  struct rlimit descriptors;  ///< How many it may have.
};

/// Its process id, or the negative errno of what failed: of fork, or of exec. It is killed when the
/// calling thread ends, however that happens.
[[nodiscard]] pid_t spawn(const Child& child) noexcept;

}  // namespace verbatim::cli
