// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Unix sockets for the rendezvous: the socket file, and the peer's identity from the kernel.
#include <sys/types.h>

#include <optional>
#include <string>

#include "channel/private_descriptor.hpp"
#include "channel/socket_address.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

/// Who may reach the file of a socket. In addition the kernel is asked who the peer is.
enum class SocketFile : std::uint8_t { own_user, everybody };

/// A listening socket. An existing file is `busy`, unless it is a socket that nobody listens on any
/// more: the file of a killed process is replaced.
[[nodiscard]] Result<PrivateDescriptor> listen_unix(const SocketAddress& address, int backlog,
                                                    SocketFile file, const char* operation);
/// Removes the file, if there is one.
void remove_socket_file(const SocketAddress& address) noexcept;

struct PeerCredentials {
  uid_t user;
  pid_t process;
};
/// As the kernel recorded them when the peer connected or listened; empty except for unix sockets.
[[nodiscard]] std::optional<PeerCredentials> peer_credentials(int fd) noexcept;

/// Whether a peer of this user is admitted if only the own user is: the user itself, and root.
[[nodiscard]] constexpr bool is_same_user(uid_t peer, uid_t own) noexcept {
  return peer == own || peer == 0;
}

}  // namespace verbatim::detail
