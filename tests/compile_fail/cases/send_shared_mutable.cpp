// EXPECT: no matching (member )?function
// SPDX-License-Identifier: MIT OR Apache-2.0
// Who else has it could write what the device reads.
#include <memory>

#include "verbatim/channel/channel.hpp"

void misuse(verbatim::Channel& channel, const std::shared_ptr<verbatim::Buffer>& value) {
#ifdef CONTROL
  static_cast<void>(channel.send(std::shared_ptr<const verbatim::Buffer>{value}).wait());
#else
  static_cast<void>(channel.send(value).wait());
#endif
}
