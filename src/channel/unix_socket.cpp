// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

namespace verbatim::detail {
namespace {

/// The path of the socket file, or nullptr for an abstract name.
const char* path_of(const SocketAddress& address) noexcept {
  const auto& name = reinterpret_cast<const sockaddr_un&>(address.storage);
  return name.sun_path[0] == '\0' ? nullptr : name.sun_path;
}

PrivateDescriptor new_socket() noexcept {
  return PrivateDescriptor::opened_by(
      [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

/// Whether the file is a socket whose listener is gone.
bool is_left_over(const SocketAddress& address) noexcept {
  struct stat status{};
  const char* const path = path_of(address);
  if (path == nullptr || lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const PrivateDescriptor probe = new_socket();
  return probe && connect(probe.get(), address.get(), address.size) != 0 && errno == ECONNREFUSED;
}

}  // namespace

Result<PrivateDescriptor> listen_unix(const SocketAddress& address, int backlog, SocketFile file,
                                      const char* operation) {
  PrivateDescriptor fd = new_socket();
  const auto failed = [&](const char* field) {
    Error error = os_failure(operation, errno);
    error.field = field;
    if (error.os_error == EADDRINUSE) error.code = Errc::busy;
    if (error.os_error == ENOENT) error.code = Errc::not_found;  // The folder does not exist.
    return std::unexpected(error.with_text(to_string(address)));
  };
  if (!fd) return failed("socket");
  // The file gets the mode of the socket, reduced by the umask.
  if (fchmod(fd.get(), file == SocketFile::own_user ? 0600 : 0666) != 0) return failed("mode");
  if (bind(fd.get(), address.get(), address.size) != 0) {
    if (errno != EADDRINUSE) return failed("bind");
    const bool replaced = is_left_over(address) && unlink(path_of(address)) == 0;
    errno = EADDRINUSE;
    if (!replaced || bind(fd.get(), address.get(), address.size) != 0) return failed("bind");
  }
  if (listen(fd.get(), backlog) != 0) return failed("listen");
  return fd;
}

void remove_socket_file(const SocketAddress& address) noexcept {
  if (address.family() == AF_UNIX && path_of(address) != nullptr) unlink(path_of(address));
}

std::optional<PeerCredentials> peer_credentials(int fd) noexcept {
  int family = 0;
  socklen_t size = sizeof family;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0 || family != AF_UNIX) return {};
  ucred who{};
  size = sizeof who;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return {};
  return PeerCredentials{.user = who.uid, .process = who.pid};
}

}  // namespace verbatim::detail
