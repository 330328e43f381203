// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Stream connections for the rendezvous: non-blocking sockets, and every wait has a
/// deadline.
#include <optional>
#include <span>

#include "channel/private_descriptor.hpp"
#include "channel/socket_address.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

/// Until one of `events` (of poll(2)) is there; false when the time is over. Signals do not end it.
[[nodiscard]] bool wait_until_ready(int fd, short events,
                                    std::chrono::steady_clock::time_point deadline) noexcept;
void sleep_until(std::chrono::steady_clock::time_point when) noexcept;

/// To the first address that answers. One that refuses is tried again until the deadline: the peer
/// may not have started yet.
[[nodiscard]] Result<PrivateDescriptor> connect_to_any(std::span<const SocketAddress> addresses,
                                                       const BoundedCall& call);

/// On the first address that can be had.
[[nodiscard]] Result<PrivateDescriptor> listen_on_any(std::span<const SocketAddress> addresses,
                                                      int backlog, const BoundedCall& call);
/// The next client, if one is there. Never waits.
[[nodiscard]] Result<std::optional<PrivateDescriptor>> try_accept(int listener,
                                                                  const char* operation) noexcept;
/// A port that nobody listens on can be given to the very socket that dials it, which then talks
/// to itself. connect_to_any() takes that for a refusal.
[[nodiscard]] bool is_connected_to_itself(int fd) noexcept;
[[nodiscard]] Result<SocketAddress> local_address(int fd, const char* operation) noexcept;
[[nodiscard]] Result<SocketAddress> peer_address(int fd, const char* operation) noexcept;

}  // namespace verbatim::detail
