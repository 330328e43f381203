// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A message at the responder: its receive, its memory, its completion.
///
/// The requester runs this on the responder's behalf, from inside its queue pair.
#include <infiniband/verbs.h>

#include <cstdint>

#include "soft/memory/pieces.hpp"
#include "soft/responder/outcome.hpp"
#include "soft/responder/receive_ring.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

/// Why memory could not be reached: its owner is dead, or about to be.
[[nodiscard]] inline bool is_dying(Peer& peer) noexcept {
  return !peer.is_alive() || !peer.has_memory();
}

/// The responder noticed an error: its queue pair breaks too. Its owner does the rest.
void break_target(QueuePair& from, std::uint32_t status) noexcept;

/// Where a message goes: the responder's queue pair and the ring its receives come from.
struct Destination {
  Peer& peer;
  SharedQueuePair& target;
  SharedReceives& receives;
  bool datagram;
};

[[nodiscard]] SharedReceives* receives_of(Segment& segment, SharedQueuePair& target) noexcept;

[[nodiscard]] Outcome no_receive(QueuePair& from, const Destination& to) noexcept;
/// Delivers a message into the next receive. A shared receive queue has many requesters: they take
/// turns.
[[nodiscard]] Outcome deliver_in_turn(QueuePair& from, const Destination& to,
                                      const ibv_send_wr& request, const Pieces& pieces) noexcept;
/// Tells the peer that a write with immediate came: takes a receive, but not its memory.
[[nodiscard]] Outcome announce(QueuePair& from, const ibv_send_wr& request,
                               std::uint64_t bytes) noexcept;

}  // namespace verbatim::engine
