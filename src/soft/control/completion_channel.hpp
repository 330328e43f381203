// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Completion channels: FIFOs that peers write to.
#include <infiniband/verbs.h>

namespace verbatim::engine {

ibv_comp_channel* create_channel(ibv_context* context) noexcept;
int destroy_channel(ibv_comp_channel* channel) noexcept;
int get_completion_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) noexcept;
void acknowledge_completion_events(ibv_cq* queue, unsigned count) noexcept;

}  // namespace verbatim::engine
