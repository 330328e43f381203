// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Polling and arming a completion queue.
///
/// Owns nothing. Any thread of the program. Polling takes `completer`, and, if there is work for
/// the engine (Engine::progress), the locks of the helper. Neither kind of completion, our own and
/// those of peers, waits behind the other without bound. Hot.
#include <infiniband/verbs.h>

namespace verbatim::engine {

// Verbs.
int poll(ibv_cq* queue, int count, ibv_wc* completions) noexcept;
int arm(ibv_cq* queue, int solicited_only) noexcept;

}  // namespace verbatim::engine
