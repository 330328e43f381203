// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A channel to another process; the two meet over TCP on this host.
#include <cstdint>
#include <string>

#include "conformance/peer_session.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::test {

inline constexpr std::size_t kPeerMessage = 4096;

/// The options of both sides; a peer that died is noticed soon.
[[nodiscard]] ChannelOptions peer_options();

/// Both sides call this: it exchanges endpoints, connects, and waits for the other side.
[[nodiscard]] Channel join_channel(Link& link, PreparedChannel prepared);

/// The child's part. "stream": sends and receives until it is killed. "answer": sends one message
/// back unchanged. "idle": connects, and does nothing until it is killed.
[[nodiscard]] int play_channel_peer(std::uint16_t port, const std::string& part);

}  // namespace verbatim::test
