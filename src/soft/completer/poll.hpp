// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Polling and arming a completion queue.
#include <infiniband/verbs.h>

namespace verbatim::engine {

// Verbs.
int poll(ibv_cq* queue, int count, ibv_wc* completions) noexcept;
int arm(ibv_cq* queue, int solicited_only) noexcept;

}  // namespace verbatim::engine
