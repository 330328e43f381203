// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the DMA model learns of an operation: when the device gets it, and when it is over.
///
/// Only in builds that have the model; see base/dma_model.hpp.
#include <infiniband/verbs.h>

#include <source_location>
#include <span>

#include "verbatim/base/dma_model.hpp"
#include "verbatim/verbs/detail/encode.hpp"

namespace verbatim::detail {

struct OperationQueue;
struct Slot;

/// Before the device is told. It writes what work goes *into*, and reads what it comes *from*.
void take_off(OperationQueue& queue, Slot& slot, dma::Direction direction, bool fenced,
              std::span<const ibv_sge> elements, const std::source_location& where) noexcept;
template <class Work>
void take_off(OperationQueue& queue, Slot& slot, const Work& work,
              const std::source_location& where) noexcept {
  if constexpr (requires { work.options.inlined; })
    if (work.options.inlined) return;  // Copied during the post: the memory is never the device's.
  bool fenced = false;
  if constexpr (requires { work.options.fenced; }) fenced = work.options.fenced;
  constexpr bool kWrites = requires { work.into; };
  take_off(queue, slot, kWrites ? dma::Direction::device_writes : dma::Direction::device_reads,
           fenced, elements_of(work), where);
}
/// Over, as the device says.
void land(Slot& slot, const ibv_wc& wc) noexcept;

}  // namespace verbatim::detail
