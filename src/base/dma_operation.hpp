// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the model keeps about an operation, and how reports describe it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>

#include "base/dma_tracker.hpp"
#include "verbatim/base/dma_model.hpp"

namespace verbatim::dma::detail {

/// The stack of the post, for sanitizer reports: return addresses, innermost first.
struct Stack {
  std::array<void*, 32> frames{};
  std::size_t first = 0;
  std::size_t depth = 0;

  [[nodiscard]] std::span<void* const> calls() const noexcept {
    return std::span{frames}.subspan(first, depth - first);
  }
};

/// One per Flight, from its first post on. ThreadSanitizer knows the hand-over to the device and
/// back by the addresses of the last two members. Another Flight must not inherit them, or it would
/// seem to be ordered after this one.
struct Operation {
  bool in_flight = false;
  bool summed = false;  // `sums` holds the fingerprints of this flight.
  Direction direction = Direction::device_reads;
  const Queue* queue = nullptr;  // Of this flight.
  std::uint32_t count = 0;
  std::array<Range, kMaxRanges> ranges{};
  std::array<Tracker::Id, kMaxRanges> tracked{};
  std::array<std::uint64_t, kMaxRanges> sums{};
  std::source_location where;
  Stack stack;
  std::uint64_t to_device = 0;
  std::uint64_t from_device = 0;

  [[nodiscard]] std::span<const Range> covered() const noexcept {
    return std::span{ranges}.first(count);
  }
};

/// The operation in flight that owns a byte of this range, or nullptr. Never deadlocks on itself:
/// it returns nullptr while the model works on this thread.
[[nodiscard]] const Operation* find_in_flight(const void* data, std::size_t size) noexcept;

/// False means that nothing is in flight. Costs one load.
[[nodiscard]] bool anything_in_flight() noexcept;

}  // namespace verbatim::dma::detail
