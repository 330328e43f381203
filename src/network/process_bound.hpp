// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Whether an object is in the process that created it: its thread does not exist in a forked
/// child.
#include <unistd.h>

namespace verbatim::detail {

class ProcessBound {
 public:
  /// A system call: not for the data path.
  [[nodiscard]] bool is_forked() const noexcept { return getpid() != owner_; }

 private:
  pid_t owner_ = getpid();
};

}  // namespace verbatim::detail
