// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a loop that waits for another processor calls at each turn.

namespace verbatim {

inline void relax_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace verbatim
