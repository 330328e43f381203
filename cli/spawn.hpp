// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Starts a program as a child that does not outlive this process.
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

namespace verbatim::cli {

/// What a child gets. It has no descriptors but these three. It leads its own process group, so
/// that what it starts can be ended with it.
struct Child {
  char* const* arguments;    ///< Ends with nullptr. The first is looked up in PATH.
  char* const* environment;  ///< Ends with nullptr.
  int input;
  int output;
  int errors;
  sigset_t signals;           ///< Its signal mask.
  struct sigaction on_pipe;   ///< Its action for SIGPIPE.
  struct rlimit descriptors;  ///< Its limit of descriptors.
};

/// The process id, or the negative errno of fork or exec. The kernel kills the child when the
/// calling thread ends, for any reason.
[[nodiscard]] pid_t spawn(const Child& child) noexcept;

}  // namespace verbatim::cli
