// EXPECT: atomics work on words of 8 bytes
// SPDX-License-Identifier: MIT OR Apache-2.0
// Devices know atomics of 8 bytes only.
#include <cstdint>

#include "verbatim/verbs/remote_memory.hpp"

#ifdef CONTROL
using Word = std::uint64_t;
#else
using Word = std::uint32_t;
#endif

void misuse(const verbatim::RemoteSpan<Word, verbatim::Access::remote_atomic>& words) {
  static_cast<void>(verbatim::RemoteAtomic::at(words[3]));
}
