// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Receive requests: posted by the owner, taken by requesters.
#include <infiniband/verbs.h>

#include <cstdint>

#include "soft/shared/objects.hpp"

namespace verbatim::engine {

class Engine;

/// Allocates the rings of a queue pair or shared receive queue. An errno, or 0. `spare`: places for
/// numbers that may have to be passed over.
[[nodiscard]] int make_ring(Engine& engine, SharedReceives& shared, ReceiveRing& ring,
                            std::uint32_t depth, std::uint32_t max_elements,
                            std::uint32_t spare = 0) noexcept;
void free_ring(Engine& engine, ReceiveRing& ring) noexcept;

/// Completes every receive that no peer has used as flushed, oldest first.
void flush_receives(QueuePair& queue_pair) noexcept;
/// Forgets all receives: for RESET.
void clear_receives(QueuePair& queue_pair) noexcept;

/// A receive that a requester took from the peer's ring.
struct TakenReceive {
  std::uint32_t number;
  const ReceiveSlot* slot;
  std::byte* eager;
  std::uint32_t eager_bytes;
};
enum class Taking : std::uint8_t { taken, none, broken };
/// The next receive of the peer's ring. The caller holds the right to take from it.
[[nodiscard]] Taking take_receive(Segment& segment, SharedReceives& receives,
                                  TakenReceive& taken) noexcept;

// Verbs.
int post_receive(ibv_qp* queue_pair, ibv_recv_wr* requests, ibv_recv_wr** rejected) noexcept;
int post_shared_receive(ibv_srq* queue, ibv_recv_wr* requests, ibv_recv_wr** rejected) noexcept;

}  // namespace verbatim::engine
