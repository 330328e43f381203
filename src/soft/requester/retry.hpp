// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Requests that could not finish when they were posted: kept, retried, given up.
///
/// Owns nothing: waiting requests belong to the queue pair. Posting threads keep requests; the
/// helper and pollers (under `waiting`) retry them, each under `queue_pair`. Not hot.
#include <infiniband/verbs.h>

#include <cstdint>

#include "soft/requester/queue_pair.hpp"
#include "soft/responder/outcome.hpp"

namespace verbatim::engine {

/// When to look again at a queue pair that is in use.
inline constexpr std::uint64_t kBusyNs = 20'000;

/// Keeps a request for later: its elements, and inline data by value, because the caller may reuse
/// both.
Waiting& keep(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number) noexcept;
/// Keeps a request that cannot run now. The lock is held. True: the queue pair broke on it.
[[nodiscard]] bool start_later(QueuePair& queue_pair, const ibv_send_wr& request,
                               std::uint32_t number, const Outcome& outcome) noexcept;
/// On an unusual day every request waits, if only for a moment, until its script has run.
bool start_scripted(QueuePair& queue_pair, const ibv_send_wr& request,
                    std::uint32_t number) noexcept;
/// Writes the sender's completion, if there must be one.
void complete(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
              ibv_wc_status status, std::uint32_t bytes) noexcept;

/// Retries the waiting requests. Returns when to look again (steady clock), or 0 if none waits. If
/// a queue pair breaks on one, it sets QueuePair::broken; the caller flushes it when it holds no
/// lock.
std::uint64_t retry(QueuePair& queue_pair) noexcept;
/// An event is due when a queue that is being drained (SQD) is empty. The lock is held.
void tell_if_drained(QueuePair& queue_pair) noexcept;
/// Completes a request that failed. A reliable connection breaks: true, and its owner's thread
/// flushes the rest. Of the other types only the send queue stops (SQE), and their peers see no
/// difference: receives go on until the program makes the queue pair ready to send again. The lock
/// is held.
bool fail(QueuePair& queue_pair, const ibv_send_wr& request, std::uint32_t number,
          const Outcome& outcome) noexcept;
/// Completes every waiting request as flushed. The lock is held.
void flush_waiting(QueuePair& queue_pair) noexcept;
/// The same; takes the lock.
void flush_sends(QueuePair& queue_pair) noexcept;

}  // namespace verbatim::engine
