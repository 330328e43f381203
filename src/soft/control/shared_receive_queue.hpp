// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Shared receive queues: making, changing, ending.
#include <infiniband/verbs.h>

namespace verbatim::engine {

ibv_srq* create_shared_queue(ibv_pd* domain, ibv_srq_init_attr* init) noexcept;
int modify_shared_queue(ibv_srq* queue, ibv_srq_attr* attributes, int mask) noexcept;
int query_shared_queue(ibv_srq* queue, ibv_srq_attr* attributes) noexcept;
int destroy_shared_queue(ibv_srq* queue) noexcept;

}  // namespace verbatim::engine
