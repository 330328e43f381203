// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/channel/unsafe.hpp"

#include "channel/channel_state.hpp"

namespace verbatim::detail {

void keep_nothing(void*) noexcept {}

void abandon_borrowed(ChannelCore& channel, Slot& slot) noexcept {
  if (!abandon(channel, slot, nullptr, [](void*, void*) noexcept {}, keep_nothing))
    device_not_stopped();
}

}  // namespace verbatim::detail
