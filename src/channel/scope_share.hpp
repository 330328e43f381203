// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One channel's part of a scope over several channels.
#include <chrono>

#include "verbatim/channel/deadline.hpp"

namespace verbatim::detail {

struct ChannelState;
struct ScopeState;

/// Like finish_scope(), for this channel's part: if it is late, only this channel ends. `since`:
/// when the first look found nothing, for all channels together.
void finish_share(ChannelState& state, ScopeState& scope, Deadline deadline,
                  std::chrono::steady_clock::time_point& since) noexcept;

}  // namespace verbatim::detail
