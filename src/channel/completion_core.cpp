// SPDX-License-Identifier: MIT OR Apache-2.0
#include "channel/completion_core.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/shared_receives.hpp"
#include "channel/slot_states.hpp"
#include "channel/work_failure.hpp"
#include "provider/fork_guard.hpp"
#include "verbatim/base/try.hpp"
#include "verbatim/channel/channel_options.hpp"

namespace verbatim::detail {
namespace {

void tell_model(Slot& slot, const ibv_wc& wc) noexcept {
  if constexpr (!dma::kModelled) return;
  if (slot.state == SlotState::batch)
    land_batch(slot, wc.status == IBV_WC_SUCCESS ? SIZE_MAX : 0);
  else if (slot.state != SlotState::chained || wc.status != IBV_WC_SUCCESS)
    land(slot, wc);
}

}  // namespace

Result<std::shared_ptr<CompletionCore>> CompletionCore::create(const Context& context,
                                                               std::uint32_t depth,
                                                               std::uint32_t slots,
                                                               CompletionQueueGrowth growth) {
  auto events = VERBATIM_TRY(context.create_completion_channel());
  auto queue = VERBATIM_TRY(
      context.create_completion_queue({.depth = depth, .channel = events, .growth = growth}));
  auto slab = VERBATIM_TRY(Slab::reserve(slots));
  return std::make_shared<CompletionCore>(context, std::move(events), std::move(queue),
                                          std::move(slab));
}

CompletionCore::CompletionCore(Context on, CompletionChannel channel, CompletionQueue queue,
                               Slab memory) noexcept
    : context(std::move(on)),
      events(std::move(channel)),
      completions(std::move(queue)),
      slab(std::move(memory)),
      cq_(Raw::of(completions)),
      slots_(slab.slots()),
      mask_(slab.mask()) {}

CompletionCore::~CompletionCore() {
  if (shared_receives != nullptr) shared_receives->close();
}

Result<void> CompletionCore::arm() noexcept {
  if (shared_receives != nullptr) shared_receives->flush();
  return completions.arm();
}

int CompletionCore::drain() noexcept {
  if (const int left = std::exchange(left_polled_, 0)) [[unlikely]] {
    file(next_polled_, left);
    return left;
  }
  ibv_wc polled[kPollBatch];
  const int count = cq_->context->ops.poll_cq(cq_, kPollBatch, polled);
  if (count > 0) file(polled, count);
  return count;
}

int CompletionCore::turn() noexcept {
  const int count = cq_->context->ops.poll_cq(cq_, kPollBatch, polled_.data());
  if (count <= 0) return count;
  next_polled_ = polled_.data();
  left_polled_ = count;
  // A coroutine that is resumed here may itself poll, and then nothing is left for this loop.
  do {
    --left_polled_;
    const ibv_wc& wc = *next_polled_++;
    Slot& slot = slots_[wc.wr_id & mask_];
    if (slot.id != wc.wr_id || slot.state != SlotState::awaited || wc.status != IBV_WC_SUCCESS)
        [[unlikely]] {
      turn_to(wc);
      continue;
    }
    if constexpr (dma::kModelled) land(slot, wc);
    std::memcpy(static_cast<void*>(&slot.completion), &wc, sizeof wc);  // A bit_cast: +5 / 0.
    slot.state = SlotState::done;
    wake(slot);
  } while (left_polled_ != 0);
  return count;
}

void CompletionCore::turn_to(const ibv_wc& wc) noexcept {
  Slot& slot = slots_[wc.wr_id & mask_];
  if (slot.id != wc.wr_id || slot.state != SlotState::shared) return file(&wc, 1);
  if (Slot* const told = shared_receives->take_in(slot, wc)) wake(*told);
}

Result<void> CompletionCore::sweep() noexcept {
  std::array<Completion, kPollBatch> polled;
  // A queue that other channels keep busy may never be found empty.
  for (std::uint64_t looks = 0; looks <= mask_; ++looks) {
    const std::size_t count = VERBATIM_TRY(completions.poll(polled));
    if (count == 0) break;
    for (const Completion& each : std::span{polled}.first(count)) {
      const auto wc = std::bit_cast<ibv_wc>(each);
      file(&wc, 1);
    }
  }
  return {};
}

Error CompletionCore::broken() const noexcept {
  return {.code = is_forked(cq_->context) ? Errc::forked : Errc::device_failed,
          .operation = "ibv_poll_cq"};
}

void CompletionCore::file(const ibv_wc* polled, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = polled[i];
    Slot& slot = slots_[wc.wr_id & mask_];
    if (slot.id != wc.wr_id) [[unlikely]]
      continue;  // The operation ended otherwise, or was never ours.
    if (slot.state == SlotState::detached && wc.status == IBV_WC_SUCCESS) {
      if constexpr (dma::kModelled) land(slot, wc);
      --slot.scope->detached;
      slot.queue->release(slot);
      continue;
    }
    if (!is_in_flight(slot.state) && slot.state != SlotState::chained) {
      if (slot.state == SlotState::shared)
        if (Slot* const told = shared_receives->take_in(slot, wc)) wakeups.link(*told);
      continue;
    }
    tell_model(slot, wc);
    // Requests inside a batch are signaled only to let the device free their places. The last one
    // reports.
    if (slot.state == SlotState::chained && wc.status == IBV_WC_SUCCESS) continue;
    slot.queue->channel->take_in(slot, wc);
  }
}

}  // namespace verbatim::detail

namespace verbatim {

SharedCompletions::~SharedCompletions() = default;

}  // namespace verbatim
