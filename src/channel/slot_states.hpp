// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Which states of a slot mean that the device has its request.
#include "verbatim/channel/detail/slots.hpp"

namespace verbatim::detail {

[[nodiscard]] constexpr bool is_in_flight(SlotState state) noexcept {
  return state >= SlotState::flying && state <= SlotState::batch;
}

}  // namespace verbatim::detail
