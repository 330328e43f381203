// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Ctrl-C as a flag: long work looks at it now and then.

namespace verbatim::cli {

/// From now on SIGINT, SIGTERM and SIGHUP are kept for is_interrupted(). Whoever sends one twice
/// ends the process at once.
void catch_interrupts() noexcept;
/// One load.
[[nodiscard]] bool is_interrupted() noexcept;
/// 128 and the signal, as a shell has it; 0 if none came.
[[nodiscard]] int interrupt_status() noexcept;

}  // namespace verbatim::cli
