// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Two processes that meet by address: one asks, the other echoes.
#include <string>

#include "verbatim/channel/rendezvous.hpp"

namespace verbatim::test {

/// Sends back what it receives, as often as the asker says.
void serve_echo(const ProtectionDomain& domain, Channel& channel);

/// The child's part: dials, asks, checks each answer, closes. Returns the exit status.
[[nodiscard]] int play_dialler(const std::string& address);

/// Another part: dials and stays until it is killed. "fork": also has a child that outlives it.
[[nodiscard]] int play_visitor(const std::string& address, const std::string& manner);

}  // namespace verbatim::test
