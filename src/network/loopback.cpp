// SPDX-License-Identifier: MIT OR Apache-2.0
#include "network/loopback.hpp"

#include <arpa/inet.h>

namespace verbatim::detail {
namespace {

constexpr std::uint32_t kLoopbackNet = 127;

}  // namespace

bool is_loopback(const SocketAddress& address) noexcept {
  if (address.family() == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    return ntohl(ipv4.sin_addr.s_addr) >> 24 == kLoopbackNet;
  }
  if (address.family() != AF_INET6) return false;
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ipv6) ||
         (IN6_IS_ADDR_V4MAPPED(&ipv6) && ipv6.s6_addr[12] == kLoopbackNet);
}

}  // namespace verbatim::detail
