// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A message at the responder: its receive, its memory, its completion.
///
/// The requester runs this on the responder's behalf, in the posting thread, from inside the
/// responder's queue pair (access_guard.hpp); for datagrams, under `datagrams`. Takes
/// `completions`. Owns nothing: what a sender has found out belongs to its queue pair. Hot.
#include <infiniband/verbs.h>

#include <cstdint>

#include "soft/completer/shared_ring.hpp"
#include "soft/memory/pieces.hpp"
#include "soft/responder/outcome.hpp"
#include "soft/responder/receive_ring.hpp"
#include "soft/shared/layout.hpp"
#include "soft/shared/peer.hpp"

namespace verbatim::engine {

/// The sender.
struct Sender {
  Engine& engine;
  std::uint32_t number;  ///< Of its queue pair.
  std::uint32_t lid;     ///< Of its port; 0 on Ethernet.
  bool is_reliable;      ///< An error at the responder breaks both sides.
};

/// What a sender has found out about a responder's queue pair. The responder's counter of changes
/// tells when that is out of date.
struct Delivery {
  std::uint64_t changes = 0;
  RingView ring;
  QueueView queue;
  /// Receive memory that was checked, by key: looking it up again costs 20 more instructions.
  struct Checked {
    std::uint32_t key = 0;
    std::uint64_t base = 0;
    std::uint64_t length = 0;
  };
  static constexpr std::size_t kChecked = 8;
  Checked checked[kChecked];
  [[nodiscard]] bool is_checked(const SharedElement& element) const noexcept {
    const Checked& place = checked[region_index(element.key) % kChecked];
    const std::uint64_t offset = element.address - place.base;
    return place.key == element.key && offset <= place.length &&
           element.length <= place.length - offset;
  }
  /// A receive of a shared queue that was taken for a message that could not be completed yet.
  bool holds = false;
  TakenReceive held;

  void forget() noexcept {
    ring = {};
    queue = {};
    for (Checked& each : checked) each = {};
  }
};

/// Where a message goes.
struct Destination {
  Peer& peer;
  SharedQueuePair& target;
  Delivery& known;
  const ibv_grh* header;  ///< For a datagram; else nullptr.
};

/// As in the responder's completion.
[[nodiscard]] inline std::uint8_t receive_flags(const ibv_send_wr& request) noexcept {
  return request.opcode == IBV_WR_SEND_WITH_IMM || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM
             ? std::uint8_t{IBV_WC_WITH_IMM}
             : std::uint8_t{0};
}

/// Delivers a message into the next receive.
[[nodiscard]] Outcome deliver(const Sender& from, const Destination& to, const ibv_send_wr& request,
                              const Pieces& pieces) noexcept;

/// For a message that is not tried again: offers the receive of a shared queue again that it took
/// and did not use.
void give_back(const Sender& from, const Destination& to) noexcept;
/// The same for an earlier sender of datagrams that died inside: whatever it had taken. The caller
/// has taken its lock over, so nobody else takes receives for this queue pair.
void give_back_of_dead(const Sender& from, const Destination& to) noexcept;

/// A write with immediate takes a receive, but not its memory. Call claim_receive() first: without
/// a receive nothing may be written yet, because the retry would write twice. Then call announce().
[[nodiscard]] Outcome claim_receive(const Sender& from, const Destination& to) noexcept;
[[nodiscard]] Outcome announce(const Sender& from, const Destination& to,
                               const ibv_send_wr& request, std::uint64_t bytes) noexcept;

/// The responder noticed an error: its queue pair breaks too. Its owner does the rest.
void break_target(const Sender& from, Peer& peer, SharedQueuePair& target,
                  std::uint32_t status) noexcept;

/// Whether a small message that the owner has not placed yet may be in flight to the memory (in its
/// owner's addresses). If so, the owner was asked to place it, and the request must be retried.
[[nodiscard]] bool is_unsettled(Engine& engine, Peer& owner, std::uint32_t key,
                                std::uint64_t address, std::uint64_t length) noexcept;

}  // namespace verbatim::engine
