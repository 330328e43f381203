// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The requester executes a work request: checks, copies, and writes the peer's completion.
///
/// Owns nothing. In the posting thread, or the one that retries, under `queue_pair`. Takes the
/// locks of delivery (responder/deliver.hpp), `datagrams`, and for memory that is not mapped here
/// `atomics` and the relay. Hot.
#include <infiniband/verbs.h>

#include "soft/requester/queue_pair.hpp"
#include "soft/responder/outcome.hpp"

namespace verbatim::engine {

/// Runs the request now. The visit continues after it.
[[nodiscard]] Outcome execute(QueuePair& queue_pair, const ibv_send_wr& request,
                              Visit& visit) noexcept;

// By kind of request.
[[nodiscard]] Outcome send(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept;
[[nodiscard]] Outcome write(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept;
[[nodiscard]] Outcome read(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept;
[[nodiscard]] Outcome atomic(QueuePair& from, const ibv_send_wr& request, Visit& visit) noexcept;
/// A datagram that cannot be delivered is lost, which is not an error of the sender.
[[nodiscard]] Outcome datagram(QueuePair& from, const ibv_send_wr& request) noexcept;

/// Where messages of a connected queue pair go. What is known about it is as new as the peer's
/// changes.
[[nodiscard, gnu::always_inline]] inline Destination destination_of(QueuePair& from) noexcept {
  Delivery& known = from.delivery;
  const std::uint64_t changes = from.route.changes->load(std::memory_order_acquire);
  if (known.changes != changes) [[unlikely]] {
    known.forget();
    known.changes = changes;
  }
  return {*from.route.peer, *from.route.target, known, nullptr};
}

}  // namespace verbatim::engine
