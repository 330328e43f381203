// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The requester executes a work request: checks, copies, and writes both completions.
#include <infiniband/verbs.h>

#include "soft/responder/outcome.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

class Visit;

/// Runs the request now, in this thread. The queue pair's lock is held. The visit goes on after it.
[[nodiscard]] Outcome execute(QueuePair& queue_pair, const ibv_send_wr& request,
                              Visit& visit) noexcept;

// By kind of request.
[[nodiscard]] Outcome send(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept;
[[nodiscard]] Outcome write(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept;
[[nodiscard]] Outcome read(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept;
[[nodiscard]] Outcome atomic(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept;
/// A datagram that cannot be delivered is lost, and that is not an error of the sender's.
[[nodiscard]] Outcome datagram(QueuePair& from, const ibv_send_wr& request) noexcept;

}  // namespace verbatim::engine
