// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Completion queues: creating, resizing, destroying.
///
/// Control verbs, which create and free what completer/completion_queue.hpp describes. Any thread.
/// Creating takes `segment`. Resizing takes `completions`, then `completer`. Destroying waits,
/// without any lock, until events are acknowledged, then takes `lifetime` (exclusive). Not hot.
#include <infiniband/verbs.h>

namespace verbatim::engine {

ibv_cq* create_completion_queue(ibv_context* context, int depth, void* user,
                                ibv_comp_channel* channel, int vector) noexcept;
int resize_completion_queue(ibv_cq* queue, int depth) noexcept;
int destroy_completion_queue(ibv_cq* queue);

}  // namespace verbatim::engine
