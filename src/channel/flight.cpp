// SPDX-License-Identifier: MIT OR Apache-2.0
// What the slots tell the DMA model (base/dma_model.hpp). Called only where a checker is compiled
// in.
#include <algorithm>
#include <array>

#include "verbatim/channel/detail/slots.hpp"

namespace verbatim::detail {

void take_off(OperationQueue& queue, Slot& slot, dma::Direction direction,
              std::span<const ibv_sge> elements, const std::source_location& where) noexcept {
  std::array<dma::Range, dma::kMaxRanges> ranges;
  const std::size_t count = std::min(elements.size(), ranges.size());
  for (std::size_t i = 0; i < count; ++i)
    ranges[i] = {reinterpret_cast<const std::byte*>(elements[i].addr), elements[i].length};
  dma::posted(queue.model, slot.flight, direction, std::span{ranges}.first(count), where);
}

void land(Slot& slot, const ibv_wc& wc) noexcept {
  if (!slot.flight.in_flight()) return;
  // A read or an atomic that succeeded has filled its memory; what came with an immediate went
  // elsewhere.
  const bool received = (wc.opcode & IBV_WC_RECV) != 0;
  const std::size_t filled = !received ? SIZE_MAX : wc.opcode == IBV_WC_RECV ? wc.byte_len : 0;
  dma::completed(slot.flight, wc.status == IBV_WC_SUCCESS ? filled : 0);
}

}  // namespace verbatim::detail
