// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Where registered memory is, as seen from here, and how a copy to or from it ended.
///
/// Values of the thread that runs a request, valid while it holds its queue pair's lock and is
/// inside the responder's queue pair. No locks. Hot.
#include <cstddef>
#include <cstdint>

#include "soft/shared/peer.hpp"

namespace verbatim::engine {

/// A range of registered memory that can be reached by some path.
struct Location {
  std::byte* direct = nullptr;  ///< In our address space; null: use the peer's memory path.
  std::uint64_t address = 0;    ///< In the owner's address space.
  Peer* owner = nullptr;
  std::uint32_t object = 0;  ///< As in SharedRegion: decides how atomics are done.
  std::uint32_t key = 0;     ///< The region's: passed to the owner if it copies for us.

  void advance(std::uint32_t bytes) noexcept {
    address += bytes;
    if (direct != nullptr) direct += bytes;
  }
};

/// Whether memory was copied, or an atomic done.
enum class Copied : std::uint8_t {
  yes,
  no,       ///< Refused, or the owner is gone.
  not_now,  ///< Nothing was done: the owner does not answer now. Try again.
};

}  // namespace verbatim::engine
