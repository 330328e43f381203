// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where a coordinator can be reached, as text.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

/// "node-a:7000", "[fe80::1]:7000".
[[nodiscard]] std::string host_and_port(const std::string& host, std::uint16_t port);

/// "localhost", or a numeric address that does not leave the machine. No other name: somebody else
/// decides what that stands for.
[[nodiscard]] bool is_loopback_host(const std::string& host);
/// Any address of this machine: "", "0.0.0.0", "::".
[[nodiscard]] bool is_wildcard(const std::string& host);

/// Every one of the list (separated by commas) is "host:port", and not port 0; `invalid_argument`
/// of `field` for the first that is not. Without a secret each has to be loopback, else
/// `permission_denied`.
[[nodiscard]] Result<void> check_coordinators(std::string_view list, bool has_secret,
                                              const char* operation, const char* field);

/// The addresses of this machine that others can reach, IPv4 first, as hosts. No loopback, and none
/// that means something on its own link only.
[[nodiscard]] std::vector<std::string> own_addresses();

/// The same text for two processes that share a loopback interface, and for no others.
[[nodiscard]] std::string loopback_id();

}  // namespace verbatim::detail
