// EXPECT: this owner shares its memory .* nothing can be received or read into it
// SPDX-License-Identifier: MIT OR Apache-2.0
// Others may be reading what the device would overwrite.
#include <memory>
#include <utility>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, std::shared_ptr<const verbatim::Buffer> value) {
#ifdef CONTROL
  static_cast<void>(channel.send(std::move(value)).wait());
#else
  static_cast<void>(channel.receive(std::move(value)).wait());
#endif
}
