// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Whether an address is this machine's loopback, which no other machine can reach.
#include "channel/socket_address.hpp"

namespace verbatim::detail {

[[nodiscard]] bool is_loopback(const SocketAddress& address) noexcept;

}  // namespace verbatim::detail
