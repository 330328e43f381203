// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Who may meet: what is known of a peer, and a hook that refuses it or asks for proof.
///
/// The hook runs before this side shows its endpoint or its private data:
///
///     options.admit = [](const vb::Peer& peer) -> vb::Result<std::unique_ptr<vb::Authenticator>> {
///       if (!peer.address.starts_with("10.1."))
///         return std::unexpected(vb::Error{.code = vb::Errc::permission_denied});
///       return nullptr;  // come in; or an Authenticator: prove it
///     };
///
/// What it protects is the meeting. RDMA data itself is neither encrypted nor authenticated: who
/// can put packets on the fabric can read and forge it, whatever the hook said.
///
/// Threads: the hook is called by the thread that is in accept(), try_accept() or dial(); for one
/// listener by one thread at a time. It must not call that listener, and should not block: the
/// other handshakes of the listener wait. An exception counts as a refusal.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbatim/base/error.hpp"

namespace verbatim {

/// So many bytes may each side give the other when they meet.
inline constexpr std::size_t kMaxPrivateDataBytes = 512;

/// The other side of a meeting.
struct Peer {
  /// "10.1.0.7:41822", "[fe80::1]:41822"; of a unix socket "unix:" and the path of the listener.
  std::string address{};
  std::optional<std::uint32_t> user{};    ///< Its uid, as the kernel knows it: unix sockets only.
  std::optional<std::int32_t> process{};  ///< Its pid, likewise.
  std::vector<std::byte> private_data{};  ///< What it gave; empty until it is admitted.
};

/// One side of an authentication, for one meeting: both sides have one, or neither has. They talk
/// in rounds: in each round both say something, then both hear it.
class Authenticator {
 public:
  static constexpr std::size_t kMaxMessageBytes = 512;
  static constexpr int kMaxRounds = 8;

  struct Answer {
    std::vector<std::byte> message{};  ///< For the peer.
    bool satisfied = false;            ///< Nothing more needs to be heard.
  };
  virtual ~Authenticator() = default;
  /// `heard` is the peer's message of the round before; in the first round it is empty. The
  /// exchange is over after a round in which both were satisfied. An error refuses the peer.
  [[nodiscard]] virtual Result<Answer> step(std::span<const std::byte> heard) = 0;

  /// What follows the exchange, endpoints and private data, passes through these: a session that
  /// has agreed on a key encrypts and authenticates here. At most 256 bytes may be added.
  [[nodiscard]] virtual Result<std::vector<std::byte>> seal(std::span<const std::byte> record);
  /// An error refuses the peer.
  [[nodiscard]] virtual Result<std::vector<std::byte>> open(std::span<const std::byte> sealed);
};

/// Called for each peer: an error refuses it, nullptr admits it, an Authenticator asks for proof.
using AdmitPeer = std::function<Result<std::unique_ptr<Authenticator>>(const Peer& peer)>;

}  // namespace verbatim
