// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Copying where the kernel denies access to the peer's memory: the peer's helper copies.
///
/// Slow (a thread wakes for each piece), but it works in every container.
#include <cstddef>
#include <cstdint>

#include "soft/shared/peer.hpp"

namespace verbatim::engine {

class Engine;

[[nodiscard]] bool relay_write(const Engine& engine, Peer& to, std::uint64_t address,
                               const std::byte* from, std::size_t size) noexcept;
[[nodiscard]] bool relay_read(const Engine& engine, Peer& from, std::uint64_t address,
                              std::byte* to, std::size_t size) noexcept;

/// The owner's side: serves a waiting request, if there is one.
void answer_relay(Engine& engine) noexcept;

}  // namespace verbatim::engine
