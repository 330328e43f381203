// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Queue pairs: making, changing state, breaking.
#include <infiniband/verbs.h>

#include "soft/shared/objects.hpp"

namespace verbatim::engine {

/// Finds the process of the queue pair that this one is connected to. It may not be there yet: then
/// requests wait for it, and look again.
void aim(QueuePair& queue_pair) noexcept;

/// A failed request sends the queue pair to the error state: everything outstanding is flushed.
void break_queue_pair(QueuePair& queue_pair) noexcept;
/// A peer said that our queue pair failed as its responder.
void answer_fault(QueuePair& queue_pair) noexcept;

// Verbs.
ibv_qp* create_queue_pair(ibv_pd* domain, ibv_qp_init_attr* init) noexcept;
int modify_queue_pair(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) noexcept;
int query_queue_pair(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask,
                     ibv_qp_init_attr* init) noexcept;
int destroy_queue_pair(ibv_qp* queue_pair) noexcept;

}  // namespace verbatim::engine
