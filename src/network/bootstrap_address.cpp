// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/bootstrap_address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <fstream>

#include "channel/socket_address.hpp"
#include "network/loopback.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim::detail {
namespace {

std::string numeric(int family, const void* address) {
  char text[INET6_ADDRSTRLEN] = "";
  return inet_ntop(family, address, text, sizeof text) != nullptr ? text : "";
}

/// Returns an empty string if other hosts cannot use the address.
std::string reachable(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0 ||
      (entry.ifa_flags & IFF_LOOPBACK) != 0)
    return {};
  if (entry.ifa_addr->sa_family == AF_INET)
    return numeric(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr);
  if (entry.ifa_addr->sa_family != AF_INET6) return {};
  const auto& address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
  return IN6_IS_ADDR_LINKLOCAL(&address) ? "" : numeric(AF_INET6, &address);
}

Result<void> check_coordinator(std::string_view text, bool has_secret, const char* operation,
                               const char* field) {
  const Error wrong =
      Error{.code = Errc::invalid_argument, .operation = operation, .field = field}.with_text(text);
  const auto where = parse_host_port(text, operation);
  if (!where || where->host.empty() || where->port == 0) return std::unexpected(wrong);
  if (has_secret || is_loopback_host(where->host)) return {};
  // Anybody could read a key that crosses a network in the clear.
  return std::unexpected(
      Error{.code = Errc::permission_denied,
            .operation = operation,
            .field = "no secret (VERBATIM_SECRET), and the coordinator is not on loopback"}
          .with_text(text));
}

}  // namespace

std::string host_and_port(const std::string& host, std::uint16_t port) {
  const bool ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return (ipv6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

bool is_loopback_host(const std::string& host) {
  if (host == "localhost") return true;
  if (!is_numeric(host)) return false;
  constexpr std::uint16_t kAnyPort = 1;
  const auto found = resolve({.host = host, .port = kAnyPort}, {.operation = "", .deadline = {}});
  return found && is_loopback(found->front());
}

bool is_wildcard(const std::string& host) {
  return host.empty() || host == "0.0.0.0" || host == "::";
}

Result<void> check_coordinators(std::string_view list, bool has_secret, const char* operation,
                                const char* field) {
  for (bool more = true; more;) {
    const std::size_t comma = list.find(',');
    more = comma != std::string_view::npos;
    VERBATIM_TRY(check_coordinator(list.substr(0, comma), has_secret, operation, field));
    if (more) list.remove_prefix(comma + 1);
  }
  return {};
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::vector<std::string> found;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
      if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == family)
        if (auto address = reachable(*entry); !address.empty()) found.push_back(std::move(address));
  freeifaddrs(list);
  return found;
}

std::string loopback_id() {
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  // A container has the machine's boot id, but its own loopback interface.
  struct stat network{};
  if (boot.empty() || stat("/proc/self/ns/net", &network) != 0) return {};
  return boot + '/' + std::to_string(network.st_ino);
}

}  // namespace verbatim::detail
