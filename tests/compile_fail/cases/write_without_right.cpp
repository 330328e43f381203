// EXPECT: Write to remote memory without Access::remote_write
// SPDX-License-Identifier: MIT OR Apache-2.0
// The peer gave the right to read, no more.
#include "verbatim/verbs/work.hpp"

void misuse(const verbatim::GatherElement& from, const verbatim::RemoteMemoryRegion& region) {
#ifdef CONTROL
  const auto span = verbatim::RemoteSpan<int, verbatim::Access::remote_write>::of(region);
  static_cast<void>(verbatim::Write{from, span});
#else
  const auto span = verbatim::RemoteSpan<int, verbatim::Access::remote_read>::of(region);
  static_cast<void>(verbatim::Write{from, span});
#endif
}
