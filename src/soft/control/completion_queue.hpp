// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Completion queues: making, resizing, ending.
#include <infiniband/verbs.h>

namespace verbatim::engine {

ibv_cq* create_completion_queue(ibv_context* context, int depth, void* user,
                                ibv_comp_channel* channel, int vector) noexcept;
int resize_completion_queue(ibv_cq* queue, int depth) noexcept;
int destroy_completion_queue(ibv_cq* queue) noexcept;

}  // namespace verbatim::engine
