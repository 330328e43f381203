// SPDX-License-Identifier: MIT OR Apache-2.0
#include "verbatim/verbs/gid.hpp"

#include <arpa/inet.h>

#include <algorithm>

namespace verbatim {

bool Gid::is_zero() const noexcept { return *this == Gid{}; }

bool Gid::is_link_local() const noexcept { return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }

bool Gid::is_ipv4_mapped() const noexcept {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](auto byte) { return byte == 0; }) &&
         bytes[10] == 0xff && bytes[11] == 0xff;
}

std::uint64_t Gid::subnet_prefix() const noexcept {
  std::uint64_t prefix = 0;
  for (std::size_t i = 0; i < 8; ++i) prefix = prefix << 8 | bytes[i];
  return prefix;
}

std::string to_string(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  // This cannot fail: the family is known, and the buffer has the size that inet_ntop needs.
  inet_ntop(AF_INET6, gid.bytes.data(), text.data(), static_cast<socklen_t>(text.size()));
  return text.data();
}

}  // namespace verbatim
