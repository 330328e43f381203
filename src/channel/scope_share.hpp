// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The part that one channel has of a scope over several.
#include <chrono>

#include "verbatim/channel/deadline.hpp"

namespace verbatim::detail {

struct ChannelState;
struct ScopeState;

/// As finish_scope(), for this channel's part: if it is late, this channel ends and no other.
/// `since`: when the first look found nothing, for all channels together.
void finish_share(ChannelState& state, ScopeState& scope, Deadline deadline,
                  std::chrono::steady_clock::time_point& since) noexcept;

}  // namespace verbatim::detail
