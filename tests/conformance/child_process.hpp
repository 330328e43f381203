// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A second process: this program again, executed with `--child ROLE ...`.
///
/// It is executed and not merely forked, because the peer of a real application shares nothing with
/// it.
#include <sys/types.h>

#include <string>
#include <vector>

namespace verbatim::test {

/// The exit status of a child that cannot run here; its output gives the reason.
inline constexpr int kChildCannot = 77;

/// Kills and reaps the process if nobody has waited for it.
class Child {
 public:
  Child(pid_t pid, int output) noexcept : pid_(pid), output_(output) {}
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  /// Kills with SIGKILL: no destructor runs, and no goodbye is sent. Returns when the process is
  /// gone.
  void kill();

 private:
  friend struct ChildResult run_to_end(Child child);
  pid_t pid_;
  int output_;  ///< The reading end of a pipe with the child's output.
};

struct ChildResult {
  int status;  ///< The exit status, or 128 + the signal that ended it.
  std::string output;
};

[[nodiscard]] Child start_child(std::vector<std::string> role);
/// Waits with a time limit.
[[nodiscard]] ChildResult run_to_end(Child child);

/// In the child: plays the role and returns the exit status.
[[nodiscard]] int run_child(const std::vector<std::string>& role);

}  // namespace verbatim::test
