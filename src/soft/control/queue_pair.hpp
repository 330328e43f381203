// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Queue pairs: creating, changing state, breaking.
///
/// Control verbs, which create and free what requester/queue_pair.hpp describes. Any thread; the
/// helper and pollers break one from outside. Takes `lifetime` (exclusive to free or reset one,
/// shared to break one from outside), then `waiting`, `queue_pair`, `receives`, `completer` and
/// `domain`, one after the other. Verbs wait for a requester inside for at most two seconds; who
/// breaks one from outside, a millisecond. Posting receives is hot, the rest is not.
#include <infiniband/verbs.h>

#include "soft/requester/queue_pair.hpp"

namespace verbatim::engine {

/// Answers a cry of the queue pair for its owner: one of its requests failed, a peer said that it
/// failed as its responder, a message came early, its send queue is drained. False: a requester is
/// inside, so call it again.
[[nodiscard]] bool answer_cry(QueuePair& queue_pair) noexcept;

// Verbs.
ibv_qp* create_queue_pair(ibv_pd* domain, ibv_qp_init_attr* init);
int modify_queue_pair(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) noexcept;
int query_queue_pair(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask,
                     ibv_qp_init_attr* init) noexcept;
int destroy_queue_pair(ibv_qp* queue_pair);
int post_receive(ibv_qp* queue_pair, ibv_recv_wr* requests, ibv_recv_wr** rejected) noexcept;

}  // namespace verbatim::engine
