// EXPECT: atomic on remote memory without Access::remote_atomic
// SPDX-License-Identifier: MIT OR Apache-2.0
// The peer gave the right to write, which is not the right to atomics.
#include <cstdint>

#include "verbatim/verbs/remote_memory.hpp"

using verbatim::Access;
#ifdef CONTROL
constexpr verbatim::AccessFlags kRights = Access::remote_write | Access::remote_atomic;
#else
constexpr verbatim::AccessFlags kRights = Access::remote_write;
#endif

void misuse(const verbatim::RemoteSpan<std::uint64_t, kRights>& words) {
  static_cast<void>(verbatim::RemoteAtomic::at(words[3]));
}
