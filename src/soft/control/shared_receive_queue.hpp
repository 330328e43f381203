// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Shared receive queues: creating, changing, destroying, posting to them.
///
/// Control verbs, which create and free what responder/receive_ring.hpp describes. Any thread of
/// the program. Creating takes `segment`, destroying `lifetime` (exclusive), posting `receives`.
/// Posting is hot, the rest is not.
#include <infiniband/verbs.h>

namespace verbatim::engine {

ibv_srq* create_shared_queue(ibv_pd* domain, ibv_srq_init_attr* init) noexcept;
int modify_shared_queue(ibv_srq* queue, ibv_srq_attr* attributes, int mask) noexcept;
int query_shared_queue(ibv_srq* queue, ibv_srq_attr* attributes) noexcept;
int destroy_shared_queue(ibv_srq* queue);
int post_shared_receive(ibv_srq* queue, ibv_recv_wr* requests, ibv_recv_wr** rejected) noexcept;

}  // namespace verbatim::engine
