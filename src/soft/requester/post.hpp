// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file ibv_post_send.
///
/// Owns nothing. Any thread of the program. Takes `queue_pair`, and under it the locks of
/// execute.hpp. Hot.
#include <infiniband/verbs.h>

namespace verbatim::engine {

/// ibv_post_send.
int post_send(ibv_qp* queue_pair, ibv_send_wr* requests, ibv_send_wr** rejected) noexcept;

}  // namespace verbatim::engine
