// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Asking for a cache line before it is needed.

namespace verbatim {

/// For a line that will be written: takes it away from the processor that had it last. On x86-64
/// that is an instruction which compilers use only for newer processors; older ones skip it. The
/// builtin would fetch the line for reading, and the write would then ask for it a second time.
inline void prefetch_to_write(const void* place) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place, 1);
#endif
}

}  // namespace verbatim
