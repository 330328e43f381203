// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The address of an end, with a port.
#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace verbatim::cli {

/// Takes "host", "host:port", "::1", "[::1]" or "[::1]:port". Adds the port if there is none.
[[nodiscard]] inline std::string with_port(const std::string& address, std::uint16_t port) {
  const auto colon = address.rfind(':');
  const auto bracket = address.rfind(']');
  const bool has_port =
      colon != std::string::npos &&
      (bracket == std::string::npos ? address.find(':') == colon : colon > bracket);
  if (has_port) return address;
  const bool is_bare_ipv6 = colon != std::string::npos && bracket == std::string::npos;
  return is_bare_ipv6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

}  // namespace verbatim::cli
