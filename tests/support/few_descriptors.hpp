// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A process that can open few more files, or none.
#include <sys/resource.h>
#include <unistd.h>

#include <source_location>

#include "support/require.hpp"

namespace verbatim::test {

/// While it lives, the process gets `more` descriptors, and no others. Those that it has keep
/// working.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    const int next = dup(STDIN_FILENO);
    ::close(next);
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit tight{.rlim_cur = static_cast<rlim_t>(next + more), .rlim_max = before_.rlim_max};
    if (next < 0 || setrlimit(RLIMIT_NOFILE, &tight) != 0)
      give_up("setrlimit", std::source_location::current());
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace verbatim::test
