// EXPECT: this owner shares its memory .* nothing can be received or read into it
// SPDX-License-Identifier: MIT OR Apache-2.0
// The same through an array, and by an RDMA read.
#include <array>
#include <memory>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, const verbatim::RemoteMemoryRegion& remote,
            const std::shared_ptr<const verbatim::Buffer>& value) {
#ifdef CONTROL
  static_cast<void>(channel.write(std::array{value, value}, remote).wait());
#else
  static_cast<void>(channel.read(std::array{value, value}, remote).wait());
#endif
}
