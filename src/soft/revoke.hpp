// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Taking memory back: after this returns 0, no peer is in the middle of a copy.
///
/// A requester enters the responder's queue pair before it looks at memory and leaves after.
/// Whoever revokes first forbids new entries (by the queue pair's state, or the region's key), then
/// waits here. A dead process is removed; a live one that does not leave within a bound (it may be
/// stopped) makes the call fail with EBUSY, and the memory must not be reused.
#include <cstdint>

#include "soft/layout.hpp"

namespace verbatim::engine {

class Engine;

/// Until nobody is inside this queue pair.
[[nodiscard]] int wait_until_left(Engine& engine, SharedQueuePair& queue_pair) noexcept;

/// Until everybody who is inside a queue pair of the domain now has left it.
[[nodiscard]] int wait_for_requesters(Engine& engine, std::uint32_t domain) noexcept;

}  // namespace verbatim::engine
