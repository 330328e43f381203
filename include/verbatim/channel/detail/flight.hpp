// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Tells the DMA model when the device gets an operation, and when the operation is over.
///
/// Only in builds that have the model; see base/dma_model.hpp.
#include <infiniband/verbs.h>

#include <source_location>
#include <span>

#include "verbatim/base/dma_model.hpp"
#include "verbatim/channel/detail/same_build.hpp"
#include "verbatim/verbs/detail/encode.hpp"

namespace verbatim::detail {

struct OperationQueue;
struct Slot;

/// Call it before the device gets the work. The device writes `into` and reads `from`.
void take_off(OperationQueue& queue, Slot& slot, dma::Direction direction, bool fenced,
              std::span<const ibv_sge> elements, const std::source_location& where) noexcept;
template <class Work>
void take_off(OperationQueue& queue, Slot& slot, const Work& work,
              const std::source_location& where) noexcept {
  if constexpr (requires { work.options.inlined; })
    if (work.options.inlined) return;  // Copied during the post: the device never uses the memory.
  bool fenced = false;
  if constexpr (requires { work.options.fenced; }) fenced = work.options.fenced;
  constexpr bool kWrites = requires { work.into; };
  take_off(queue, slot, kWrites ? dma::Direction::device_writes : dma::Direction::device_reads,
           fenced, elements_of(work), where);
}
/// The device reports that it is over.
void land(Slot& slot, const ibv_wc& wc) noexcept;

}  // namespace verbatim::detail
