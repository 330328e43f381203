// SPDX-License-Identifier: MIT OR Apache-2.0
// What the slots report to the DMA model (base/dma_model.hpp). Called only if a checker is compiled
// in.
#include <array>

#include "channel/channel_state.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbs/unaddressable.hpp"

#if VERBATIM_DMA_MODELLED
#include "base/dma_operation.hpp"
#endif

namespace verbatim::detail {
namespace {

/// A fenced request begins only after the earlier reads and atomics of its queue. It sends the data
/// that they bring, so those bytes may still change until then.
bool waits_for([[maybe_unused]] const OperationQueue& queue,
               [[maybe_unused]] const dma::Range& range) noexcept {
#if VERBATIM_DMA_MODELLED
  const auto* const other = dma::detail::find_in_flight(range.data, range.size);
  return other != nullptr && other->queue == &queue.model &&
         other->direction == dma::Direction::device_writes;
#else
  return false;
#endif
}

}  // namespace

void take_off(OperationQueue& queue, Slot& slot, dma::Direction direction, bool fenced,
              std::span<const ibv_sge> elements, const std::source_location& where) noexcept {
  std::array<dma::Range, dma::kMaxRanges> ranges;
  std::size_t count = 0;
  for (const ibv_sge& element : elements) {
    if (count == ranges.size()) break;
    // This process may not have the memory mapped, so the model can say nothing about it.
    if (!is_addressable(queue.channel->cq->context, element.lkey)) continue;
    const dma::Range range{reinterpret_cast<const std::byte*>(element.addr), element.length};
    if (!fenced || !waits_for(queue, range)) ranges[count++] = range;
  }
  dma::posted(queue.model, slot.flight, direction, std::span{ranges}.first(count), where);
}

void land(Slot& slot, const ibv_wc& wc) noexcept {
  if (!slot.flight.in_flight()) return;
  // A read or an atomic that succeeded has filled its memory. The data of a write with immediate
  // went elsewhere.
  const bool received = (wc.opcode & IBV_WC_RECV) != 0;
  const std::size_t filled = !received ? SIZE_MAX : wc.opcode == IBV_WC_RECV ? wc.byte_len : 0;
  dma::completed(slot.flight, wc.status == IBV_WC_SUCCESS ? filled : 0);
}

}  // namespace verbatim::detail
