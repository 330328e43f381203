// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Two endpoints in, one agreement out: a pure function that gives both sides the same
/// result.
///
/// `negotiate(a, b)` is a's view and `negotiate(b, a)` is b's. They mirror each other, so neither
/// side has to tell the other what it chose. A refusal is `incompatible` and names the field.
#include <cstdint>

#include "verbatim/base/error.hpp"
#include "verbatim/base/ids.hpp"
#include "verbatim/verbs/endpoint.hpp"

namespace verbatim {

/// How packets reach the peer.
struct Path {
  bool global = false;  ///< With a global route header; always so on Ethernet.
  Lid remote_lid{};
  Gid remote_gid;
  std::uint32_t local_gid_index = 0;
  GidType gid_type = GidType::infiniband;
};

/// The settings for this side's queue pair.
struct Agreement {
  Path path;
  QpNumber remote_queue_pair{};
  PacketSequenceNumber send_psn;                             ///< Ours.
  PacketSequenceNumber receive_psn;                          ///< The peer's.
  MaximumTransferUnit mtu = MaximumTransferUnit::bytes_256;  ///< The smaller of the two.
  std::uint8_t max_read_atomic = 0;       ///< In flight from this side; 0: no reads, no atomics.
  std::uint8_t max_dest_read_atomic = 0;  ///< Served by this side at once.
  std::uint32_t max_message_bytes = 0;
  AckTimeout ack_timeout;  ///< The longer of the two.
  bool atomics = false;  ///< From this side: both devices have them, and max_read_atomic is not 0.
  std::uint64_t remote_nonce = 0;
};

[[nodiscard]] Result<Agreement> negotiate(const Endpoint& local, const Endpoint& peer);

/// The path alone, for datagrams, which agree on nothing else.
[[nodiscard]] Result<Path> choose_path(const Endpoint& local, const Endpoint& peer);

}  // namespace verbatim
