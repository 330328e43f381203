// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The requester executes a work request: checks, copies, and writes both completions.
#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "soft/objects.hpp"

namespace verbatim::engine {

enum class Verdict : std::uint8_t {
  done,        ///< Finished, with a status.
  no_receive,  ///< The peer has no receive posted.
  not_ready,   ///< The peer's queue pair is not there, not yet ready, or broken.
};

struct Outcome {
  Verdict verdict;
  ibv_wc_status status;  ///< When done.
  std::uint32_t byte_count;
  std::uint32_t rnr_timer;  ///< The peer's, when it has no receive.
};

class Visit;

/// Runs the request now, in this thread. The queue pair's lock is held. The visit goes on after it.
[[nodiscard]] Outcome execute(QueuePair& queue_pair, const ibv_send_wr& request,
                              Visit& visit) noexcept;

/// ibv_post_send.
int post_send(ibv_qp* queue_pair, ibv_send_wr* requests, ibv_send_wr** rejected) noexcept;

/// Tries the requests that wait. When to look again (steady clock), or 0: none waits. A queue pair
/// that breaks is added to `broken`; the caller flushes it when it holds no lock.
std::uint64_t retry(QueuePair& queue_pair, std::vector<QueuePair*>& broken) noexcept;
/// Completes every waiting request as flushed.
void flush_sends(QueuePair& queue_pair) noexcept;

}  // namespace verbatim::engine
