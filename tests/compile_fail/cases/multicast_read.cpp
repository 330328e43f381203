// EXPECT: multicast\(\) of work that fills memory
// SPDX-License-Identifier: MIT OR Apache-2.0
// All peers would fill the same memory.
#include "verbatim/multi/multi_channel.hpp"

void misuse(verbatim::MultiChannel& multi, verbatim::Buffer& buffer,
            const verbatim::RemoteMemoryRegion& there) {
#ifdef CONTROL
  if (!multi.multicast(multi.peers(), verbatim::Write{buffer.gather(), there})) return;
#else
  if (!multi.multicast(multi.peers(), verbatim::Read{buffer.scatter(), there})) return;
#endif
}
