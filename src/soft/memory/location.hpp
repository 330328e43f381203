// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where registered memory lies, as seen from here, and how a copy to or from it ended.
///
/// Values of the thread that runs a request, valid while it holds its queue pair's lock and is
/// inside the responder's queue pair. No locks. Hot.
#include <cstddef>
#include <cstdint>

#include "soft/shared/peer.hpp"

namespace verbatim::engine {

/// A range of registered memory, reachable one way or another.
struct Location {
  std::byte* direct = nullptr;  ///< In our address space; else by the peer's memory path.
  std::uint64_t address = 0;    ///< In the owner's.
  Peer* owner = nullptr;
  std::uint32_t object = 0;  ///< As SharedRegion says: decides how atomics are done.
  std::uint32_t key = 0;     ///< Of the region: what the owner is told, where it copies for us.

  void advance(std::uint32_t bytes) noexcept {
    address += bytes;
    if (direct != nullptr) direct += bytes;
  }
};

/// Whether memory was copied, or an atomic done.
enum class Copied : std::uint8_t {
  yes,
  no,       ///< Refused, or the owner is gone.
  not_now,  ///< Nothing was done: the owner does not answer at present. Try again.
};

}  // namespace verbatim::engine
