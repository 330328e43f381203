// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How two channels part: neither stops its device while the other may still need it.
#include <chrono>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/operation_core.hpp"

namespace verbatim::detail {

/// Our own sends are over. Says "done" on `link`, then serves the device until the peer says so
/// too. A peer that is gone is done. If the channel breaks meanwhile its `cause` says so.
[[nodiscard]] Result<void> take_leave(ChannelState& state, int link,
                                      std::chrono::steady_clock::time_point deadline) noexcept;

}  // namespace verbatim::detail
