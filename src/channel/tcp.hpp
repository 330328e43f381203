// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file TCP connections for the rendezvous: non-blocking sockets, and every wait has a deadline.
#include <span>

#include "channel/socket_address.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/channel/operation_core.hpp"

namespace verbatim::detail {

/// Until one of `events` (of poll(2)) is there; false when the time is over. Signals do not end it.
[[nodiscard]] bool wait_until_ready(int fd, short events,
                                    std::chrono::steady_clock::time_point deadline) noexcept;

/// To the first address that answers. One that refuses is tried again until the deadline: the peer
/// may not have started yet.
[[nodiscard]] Result<FileDescriptor> connect_tcp(std::span<const SocketAddress> addresses,
                                                 const BoundedCall& call);

/// On the first address that can be had.
[[nodiscard]] Result<FileDescriptor> listen_tcp(std::span<const SocketAddress> addresses,
                                                int backlog, const BoundedCall& call);
/// The next client; `timed_out` if none comes.
[[nodiscard]] Result<FileDescriptor> accept_tcp(int listener, const BoundedCall& call) noexcept;
/// A port that nobody listens on can be given to the very socket that dials it, which then talks
/// to itself. connect_tcp() takes that for a refusal.
[[nodiscard]] bool is_connected_to_itself(int fd) noexcept;
[[nodiscard]] Result<SocketAddress> local_address(int fd, const char* operation) noexcept;

}  // namespace verbatim::detail
