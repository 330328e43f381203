// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Addresses of a coordinator, as text.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbatim/base/error.hpp"

namespace verbatim::detail {

/// "node-a:7000", "[fe80::1]:7000".
[[nodiscard]] std::string host_and_port(const std::string& host, std::uint16_t port);

/// "localhost", or a numeric address that does not leave the machine. No other name counts, because
/// the name service decides what it stands for.
[[nodiscard]] bool is_loopback_host(const std::string& host);
/// Any address of this machine: "", "0.0.0.0", "::".
[[nodiscard]] bool is_wildcard(const std::string& host);

/// Every entry of the list (separated by commas) must be "host:port", and not port 0; else
/// `invalid_argument` of `field` for the first that is not. Without a secret each must be loopback,
/// else `permission_denied`.
[[nodiscard]] Result<void> check_coordinators(std::string_view list, bool has_secret,
                                              const char* operation, const char* field);

/// The addresses of this machine that others can reach, IPv4 first, as hosts. No loopback, and no
/// link-local ones.
[[nodiscard]] std::vector<std::string> own_addresses();

/// The same text for two processes that share a loopback interface, and for no others.
[[nodiscard]] std::string loopback_id();

}  // namespace verbatim::detail
