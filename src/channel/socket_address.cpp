// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/socket_address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <system_error>

#include "base/library_thread.hpp"

namespace verbatim::detail {
namespace {

constexpr std::string_view kUnix = "unix:";

Error not_found(const BoundedCall& call, const std::string& host, int os_error = 0) noexcept {
  return Error{
      .code = Errc::not_found, .os_error = os_error, .operation = call.operation, .field = "host"}
      .with_text(host);
}

struct Lookup {
  int failed = 0;    ///< EAI_...
  int os_error = 0;  ///< With EAI_SYSTEM.
  std::vector<SocketAddress> found{};
};

/// Blocks for as long as the system's resolver takes, unless `flags` forbid queries.
Lookup look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  Lookup result;
  result.failed = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(),
                              &hints, &list);
  result.os_error = result.failed == EAI_SYSTEM ? errno : 0;
  if (result.failed != 0) return result;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    if (entry->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    result.found.push_back(address);
  }
  freeaddrinfo(list);
  return result;
}

/// Resolves in a separate thread, which is left behind if it takes too long.
Result<Lookup> look_up_within(const HostPort& where, int flags, const BoundedCall& call) {
  const Error late =
      Error{.code = Errc::timed_out, .operation = call.operation, .field = "host"}.with_text(
          where.host);
  if (std::chrono::steady_clock::now() >= call.deadline) return std::unexpected(late);
  auto promise = std::make_shared<std::promise<Lookup>>();
  std::future<Lookup> future = promise->get_future();
  try {
    start_library_thread([promise, where, flags] {
      promise->set_value(look_up(where.host, where.port, flags));
    }).detach();
  } catch (const std::system_error& refused) {
    return std::unexpected(os_failure("pthread_create", refused.code().value()));
  }
  if (future.wait_until(call.deadline) != std::future_status::ready) return std::unexpected(late);
  return future.get();
}

Result<std::vector<SocketAddress>> resolve_with(const HostPort& where, int flags,
                                                const BoundedCall& call) {
  // A numeric address needs no resolver, and so no thread.
  Lookup lookup = look_up(where.host, where.port, flags | AI_NUMERICHOST);
  if (lookup.failed != 0 && !where.host.empty()) {
    auto named = look_up_within(where, flags, call);
    if (!named) return std::unexpected(named.error());
    lookup = *std::move(named);
  }
  if (lookup.failed != 0 || lookup.found.empty())
    return std::unexpected(not_found(call, where.host, lookup.os_error));
  return std::move(lookup.found);
}

std::optional<SocketAddress> mapped_ipv4(const SocketAddress& address) noexcept {
  if (address.family() != AF_INET6) return {};
  const auto& whole = reinterpret_cast<const sockaddr_in6&>(address.storage);
  if (!IN6_IS_ADDR_V4MAPPED(&whole.sin6_addr)) return {};
  sockaddr_in part{};
  part.sin_family = AF_INET;
  part.sin_port = whole.sin6_port;
  std::memcpy(&part.sin_addr, &whole.sin6_addr.s6_addr[12], sizeof part.sin_addr);
  SocketAddress result;
  std::memcpy(&result.storage, &part, sizeof part);
  result.size = sizeof part;
  return result;
}

std::string unix_text(const SocketAddress& address) {
  sockaddr_un name{};
  std::memcpy(&name, &address.storage, std::min<std::size_t>(sizeof name, address.size));
  const std::size_t start = offsetof(sockaddr_un, sun_path);
  std::string path{name.sun_path, address.size > start ? address.size - start : 0};
  if (path.starts_with('\0'))
    path[0] = '@';
  else if (path.ends_with('\0'))
    path.pop_back();
  return std::string{kUnix} + path;
}

}  // namespace

std::chrono::steady_clock::time_point deadline_after(std::chrono::nanoseconds limit) noexcept {
  constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours{24 * 365};
  return std::chrono::steady_clock::now() +
         std::clamp(limit, std::chrono::nanoseconds::zero(), kLongestWait);
}

Result<HostPort> parse_host_port(std::string_view text, const char* operation) {
  const auto refused = [&](const char* field) {
    return std::unexpected(
        Error{.code = Errc::invalid_argument, .operation = operation, .field = field}.with_text(
            text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refused("address (host:port)");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    if (host.empty()) return refused("address (host:port)");
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    return refused("address ([IPv6]:port)");  // It is unclear which colon precedes the port.
  }
  if (host.find('\0') != std::string_view::npos) return refused("address (host:port)");
  HostPort result{.host = std::string{host}};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (error != std::errc{} || end != port.data() + port.size()) return refused("port");
  return result;
}

std::uint16_t SocketAddress::port() const noexcept {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  return 0;
}

bool is_unix(std::string_view text) noexcept { return text.starts_with(kUnix); }

Result<SocketAddress> parse_unix(std::string_view text, const char* operation) {
  const std::string_view path = text.substr(kUnix.size());
  SocketAddress address;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // A path ends with a zero byte. An abstract name begins with one, written as "@".
  constexpr std::size_t kLongestPath = sizeof name.sun_path - 1;
  if (path.size() > kLongestPath)
    return std::unexpected(Error{.code = Errc::limit_exceeded,
                                 .operation = operation,
                                 .field = "length of the unix path",
                                 .value = path.size(),
                                 .limit = kLongestPath}
                               .with_text(text));
  const bool abstract = path.starts_with('@');
  if (path.size() <= std::size_t{abstract} || path.find('\0') != std::string_view::npos)
    return std::unexpected(Error{
        .code = Errc::invalid_argument, .operation = operation, .field = "address (unix:path)"}
                               .with_text(text));
  path.copy(name.sun_path, path.size());
  if (abstract) name.sun_path[0] = '\0';
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + !abstract);
  std::memcpy(&address.storage, &name, address.size);
  return address;
}

std::string to_string(const SocketAddress& address) {
  if (address.family() == AF_UNIX) return unix_text(address);
  if (const auto mapped = mapped_ipv4(address)) return to_string(*mapped);
  char host[NI_MAXHOST];
  if (getnameinfo(address.get(), address.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0)
    return "unknown address";
  const std::string port = ':' + std::to_string(address.port());
  return address.family() == AF_INET6 ? '[' + std::string{host} + ']' + port : host + port;
}

bool is_numeric(const std::string& host) { return look_up(host, 0, AI_NUMERICHOST).failed == 0; }

Result<std::vector<SocketAddress>> resolve(const HostPort& where, const BoundedCall& call) {
  if (where.host.empty() || where.port == 0)
    return std::unexpected(Error{.code = Errc::invalid_argument,
                                 .operation = call.operation,
                                 .field = where.host.empty() ? "host" : "port"});
  return resolve_with(where, 0, call);
}

Result<std::vector<SocketAddress>> resolve_local(const HostPort& where, const BoundedCall& call) {
  return resolve_with(where, AI_PASSIVE, call);
}

}  // namespace verbatim::detail
