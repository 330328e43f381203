// EXPECT: constraint|does not satisfy
// SPDX-License-Identifier: MIT OR Apache-2.0
// A string of a peer holds pointers of the peer.
#include <string>

#include "verbatim/verbs/remote_memory.hpp"

#ifdef CONTROL
using Element = char;
#else
using Element = std::string;
#endif
verbatim::RemoteSpan<Element, verbatim::Access::remote_read> misuse(
    const verbatim::RemoteMemoryRegion& region) {
  return verbatim::RemoteSpan<Element, verbatim::Access::remote_read>::of(region);
}
