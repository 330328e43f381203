// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Who may meet: what is known about a peer, and a hook that refuses it or asks for proof.
///
/// The hook runs before this side shows its endpoint or its private data:
///
///     options.admit = [](const vb::Peer& peer) -> vb::Result<std::unique_ptr<vb::Authenticator>> {
///       if (!peer.address.starts_with("10.1."))
///         return std::unexpected(vb::Error{.code = vb::Errc::permission_denied});
///       return nullptr;  // come in; or an Authenticator: prove it
///     };
///
/// The hook protects the meeting. RDMA data itself is neither encrypted nor authenticated: anyone
/// who can put packets on the fabric can read and forge it, whatever the hook decided.
///
/// Threads: the thread in accept(), try_accept() or dial() calls the hook; for one listener, one
/// thread at a time. The hook must not call that listener. It should not block, because the
/// listener's other handshakes wait. An exception counts as a refusal.
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

/// The most bytes that each side may give the other when they meet.
inline constexpr std::size_t kMaxPrivateDataBytes = 512;

/// The other side of a meeting.
struct Peer {
  /// "10.1.0.7:41822", "[fe80::1]:41822"; for a unix socket "unix:" and the listener's path.
  std::string address{};
  std::optional<std::uint32_t> user{};    ///< Its uid, from the kernel: unix sockets only.
  std::optional<std::int32_t> process{};  ///< Its pid, likewise.
  std::vector<std::byte> private_data{};  ///< What the peer gave; empty until it is admitted.
};

/// One side of an authentication, for one meeting. Both sides have one, or neither does. They talk
/// in rounds: in each round both sides send a message, then both receive the other's.
class Authenticator {
 public:
  static constexpr std::size_t kMaxMessageBytes = 512;
  static constexpr int kMaxRounds = 8;

  struct Answer {
    std::vector<std::byte> message{};  ///< For the peer.
    bool satisfied = false;            ///< This side needs no further message.
  };
  virtual ~Authenticator() = default;
  /// `heard` is the peer's message of the previous round; it is empty in the first round. The
  /// exchange is over after a round in which both sides were satisfied. An error refuses the peer.
  [[nodiscard]] virtual Result<Answer> step(std::span<const std::byte> heard) = 0;

  /// Endpoints and private data, which follow the exchange, pass through these. A session that has
  /// agreed on a key encrypts and authenticates here. It may add at most 256 bytes.
  [[nodiscard]] virtual Result<std::vector<std::byte>> seal(std::span<const std::byte> record);
  /// An error refuses the peer.
  [[nodiscard]] virtual Result<std::vector<std::byte>> open(std::span<const std::byte> sealed);
};

/// Called for each peer: an error refuses it, nullptr admits it, an Authenticator asks for proof.
using AdmitPeer = std::function<Result<std::unique_ptr<Authenticator>>(const Peer& peer)>;

}  // namespace verbatim
