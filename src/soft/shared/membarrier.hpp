// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The system call that orders other threads from outside; glibc has no function for it.
///
/// Owns nothing. Any thread; no locks. It takes microseconds, so it is never on a hot path.
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim::engine {

/// `command` is a MEMBARRIER_CMD_*. False: the kernel does not do that for this process.
inline bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace verbatim::engine
