// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The local memory of a work request: where its elements are, after they were checked.
///
/// A value of the thread that runs the request; owns nothing, takes no lock. Hot.
#include <cstddef>
#include <cstdint>

#include "soft/memory/copy.hpp"
#include "soft/shared/layout.hpp"

namespace verbatim::engine {

struct Pieces {
  struct Piece {
    std::byte* data;
    std::uint32_t size;
  };
  Piece all[kMaxElements];
  std::uint32_t count = 0;
  std::uint64_t total = 0;
};

/// Copies all of it to one place.
inline void gather(const Pieces& pieces, std::byte* to) noexcept {
  for (std::uint32_t i = 0; i < pieces.count; ++i) {
    copy_bytes(to, pieces.all[i].data, pieces.all[i].size);
    to += pieces.all[i].size;
  }
}

}  // namespace verbatim::engine
