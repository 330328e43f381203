// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file ibv_post_send, and the end of a list of ibv_wr_*.
///
/// Owns nothing. Any thread of the program. Takes `queue_pair`, and under it the locks of
/// execute.hpp. Hot.
#include <infiniband/verbs.h>

namespace verbatim::engine {

/// ibv_post_send.
int post_send(ibv_qp* queue_pair, ibv_send_wr* requests, ibv_send_wr** rejected) noexcept;

/// Posts the whole list, or nothing if a request is wrong or there is no room for all:
/// ibv_post_send would post the requests before that one.
int post_all_or_none(ibv_qp* queue_pair, ibv_send_wr* requests) noexcept;

}  // namespace verbatim::engine
