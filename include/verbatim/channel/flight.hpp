// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the operation core tells the DMA model (base/dma_model.hpp) about each of its slots.
///
/// Empty functions on empty objects, unless a checker is compiled in.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>

#include "verbatim/base/dma_model.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::detail {

/// The device writes what work goes *into*, and reads what it comes *from*.
template <class Work>
inline constexpr dma::Direction kDirection = requires(const Work& work) {
  work.into;
} ? dma::Direction::device_writes : dma::Direction::device_reads;

template <class Work>
bool is_inlined(const Work& work) noexcept {
  if constexpr (requires { work.options.inlined; })
    return work.options.inlined;
  else
    return false;
}

/// Before the device is told.
template <class Work>
void take_off(dma::Queue& queue, dma::Flight& flight, const Work& work,
              const std::source_location& where) noexcept {
  if constexpr (dma::kModelled) {
    if (is_inlined(work)) return;  // Copied during the post: the memory is never the device's.
    std::array<dma::Range, dma::kMaxRanges> ranges;
    const std::span<const ibv_sge> elements = UnsafeAccess::elements_of(work);
    const std::size_t count = std::min(elements.size(), ranges.size());
    for (std::size_t i = 0; i < count; ++i)
      ranges[i] = {reinterpret_cast<const std::byte*>(elements[i].addr), elements[i].length};
    dma::posted(queue, flight, kDirection<Work>, std::span{ranges}.first(count), where);
  }
}

/// The device did not take it.
inline void call_off(dma::Flight& flight) noexcept {
  if (flight.in_flight()) dma::withdrawn(flight);
}

/// Over without a word about how much was written.
inline void land(dma::Flight& flight, std::size_t bytes) noexcept {
  if (flight.in_flight()) dma::completed(flight, bytes);
}

/// Over, as the device says.
inline void land(dma::Flight& flight, const ibv_wc& wc) noexcept {
  if constexpr (dma::kModelled) {
    // A read or an atomic that succeeded has filled its memory; what came with an immediate went
    // elsewhere.
    const bool received = (wc.opcode & IBV_WC_RECV) != 0;
    const std::size_t filled = !received ? SIZE_MAX : wc.opcode == IBV_WC_RECV ? wc.byte_len : 0;
    land(flight, wc.status == IBV_WC_SUCCESS ? filled : 0);
  }
}

}  // namespace verbatim::detail
