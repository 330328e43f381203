// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Unix sockets for the rendezvous: a file that comes and goes, and peers that the kernel
/// knows.
#include <sys/types.h>

#include <optional>
#include <string>

#include "channel/private_descriptor.hpp"
#include "channel/socket_address.hpp"
#include "verbatim/base/error.hpp"

namespace verbatim::detail {

/// Who may reach the file of a socket. The kernel's answer to "who is there" is asked besides.
enum class SocketFile : std::uint8_t { own_user, everybody };

/// A listening socket. A file that is there already is `busy`, unless it is a socket that nobody
/// listens on any more: what a process that was killed leaves is replaced.
[[nodiscard]] Result<PrivateDescriptor> listen_unix(const SocketAddress& address, int backlog,
                                                    SocketFile file, const char* operation);
/// Removes the file, if there is one.
void remove_socket_file(const SocketAddress& address) noexcept;

struct PeerCredentials {
  uid_t user;
  pid_t process;
};
/// As the kernel noted them when the peer connected or listened; empty for other than unix sockets.
[[nodiscard]] std::optional<PeerCredentials> peer_credentials(int fd) noexcept;

/// Whether a peer of this user is let in where only the own user is: itself, and root.
[[nodiscard]] constexpr bool is_same_user(uid_t peer, uid_t own) noexcept {
  return peer == own || peer == 0;
}

}  // namespace verbatim::detail
