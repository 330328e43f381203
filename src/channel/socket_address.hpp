// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file "host:port" or "unix:path", and what it stands for. IPv6 hosts are in brackets:
/// "[::1]:7000". A unix path that begins with "@" is an abstract name, without a file.
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

/// A call of the public interface, as everything below it sees it: its name for errors, and when it
/// must return.
struct BoundedCall {
  const char* operation;  ///< Static storage.
  std::chrono::steady_clock::time_point deadline;
};

/// Now plus `limit`, or the latest time that is safe to compute with.
[[nodiscard]] std::chrono::steady_clock::time_point deadline_after(
    std::chrono::nanoseconds limit) noexcept;

struct HostPort {
  std::string host;  ///< A name or a numeric address; may be empty.
  std::uint16_t port = 0;
};
/// Anything but "host:port" with a decimal port is an `invalid_argument` that shows the text.
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text, const char* operation);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  [[nodiscard]] int family() const noexcept { return storage.ss_family; }
  [[nodiscard]] std::uint16_t port() const noexcept;
};
/// "127.0.0.1:7000", "[::1]:7000", "unix:/run/server", "unix:@name". IPv4 on an IPv6 socket is
/// written as IPv4.
[[nodiscard]] std::string to_string(const SocketAddress& address);

[[nodiscard]] bool is_unix(std::string_view text) noexcept;
/// A path that is too long for the system is `limit_exceeded`, an empty one `invalid_argument`.
[[nodiscard]] Result<SocketAddress> parse_unix(std::string_view text, const char* operation);

/// No lookup is necessary.
[[nodiscard]] bool is_numeric(const std::string& host);
/// At least one address, in the order in which to try them. If the lookup is not finished at the
/// deadline, it is `timed_out`; the system cannot stop a lookup, so it ends by itself.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const HostPort& where,
                                                         const BoundedCall& call);
/// The same for listening: an empty host is every address of this machine.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve_local(const HostPort& where,
                                                               const BoundedCall& call);

}  // namespace verbatim::detail
