// EXPECT: Read of remote memory without Access::remote_read
// SPDX-License-Identifier: MIT OR Apache-2.0
// The peer gave the right to write, no more.
#include <utility>

#include "verbatim/verbs/work.hpp"

void misuse(verbatim::ScatterElement into, const verbatim::RemoteMemoryRegion& region) {
#ifdef CONTROL
  const auto span = verbatim::RemoteSpan<int, verbatim::Access::remote_read>::of(region);
  static_cast<void>(verbatim::Read{std::move(into), span[0]});
#else
  const auto span = verbatim::RemoteSpan<int, verbatim::Access::remote_write>::of(region);
  static_cast<void>(verbatim::Read{std::move(into), span[0]});
#endif
}
