// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where registered memory lies, as seen from here.
#include <cstddef>
#include <cstdint>

#include "soft/shared/peer.hpp"

namespace verbatim::engine {

/// A range of registered memory, reachable one way or another.
struct Location {
  std::byte* direct = nullptr;  ///< In our address space; else by the peer's memory path.
  std::uint64_t address = 0;    ///< In the owner's.
  Peer* owner = nullptr;
  bool shared_object = false;  ///< In a memory object: atomics work on it from any process.
};

}  // namespace verbatim::engine
