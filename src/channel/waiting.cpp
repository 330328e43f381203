// SPDX-License-Identifier: MIT OR Apache-2.0
// Filing the completions of a channel, waiting for one, and taking its result.
#include <bit>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/slot_states.hpp"
#include "channel/work_failure.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::detail {
namespace {

/// Returns all slots of a batch to the free list at once.
void release_batch(OperationQueue& queue, Slot& last) noexcept {
  // Only the last id has to change. Nobody has a handle to the other slots, and the device reports
  // them before this one.
  last.id += kGeneration;
  last.state = SlotState::free;
  last.next = std::exchange(queue.free, last.next);
}

}  // namespace

// ---- Filing -------------------------------------------------------------------------------------

void ChannelCore::file(const ibv_wc* polled, int count) noexcept {
  whole(*this).core->file(polled, count);
}

void ChannelState::take_in(Slot& slot, const ibv_wc& wc) noexcept {
  if (&slot == keepalive.slot) return take_in_keepalive(wc);
  const bool is_marker = &slot == slot.queue->first + slot.queue->count;
  const bool is_result = is_in_flight(slot.state) && slot.state != SlotState::detached;
  slot.filed = watched.round;
  if (is_result && !is_marker && watched.filed++ == 0) raise();
  slot.completion = std::bit_cast<Completion>(wc);
  if (wc.status != IBV_WC_SUCCESS || is_parting()) be_attended();
  // The first failure is the cause. The work after it is flushed.
  if (wc.status == IBV_WC_WR_FLUSH_ERR) {
    ending.gave_back = true;
    // Nobody waits for this request alone, and the channel ends at the next look. By then the
    // reason is known, and the scope gets it.
    if (slot.state == SlotState::detached) return;
  } else if (wc.status != IBV_WC_SUCCESS && !ending.failure) {
    ending.failure = work_failure(slot.completion);
  }
  switch (slot.state) {
    case SlotState::flying: slot.state = SlotState::done; break;
    case SlotState::awaited:
    case SlotState::noticed:
      slot.state = SlotState::done;
      // A failure is reported when the channel is over, because only then is its reason known.
      slot.deadline = slot.id;
      if (wc.status == IBV_WC_SUCCESS) core->wakeups.link(slot);
      break;
    default:
      settle(slot);
      if (slot.state == SlotState::batch_done && slot.waiter != 0) {
        slot.deadline = slot.id;
        if (wc.status == IBV_WC_SUCCESS) core->wakeups.link(slot);
      }
      break;
  }
}

void ChannelState::receive_failed(const ibv_wc& wc) noexcept {
  if (wc.status == IBV_WC_WR_FLUSH_ERR)
    ending.gave_back = true;
  else if (!ending.failure)
    ending.failure = work_failure(std::bit_cast<Completion>(wc));
  be_attended();
  raise();
}

void ChannelState::too_many_unread(std::uint32_t limit) noexcept {
  ending.failure = Error{.code = Errc::limit_exceeded,
                         .operation = "receive",
                         .field = "max_unread",
                         .value = std::uint64_t{limit} + 1,
                         .limit = limit};
  be_attended();
  raise();
}

void ChannelState::message_came(Slot& message) noexcept {
  message.filed = watched.round;
  if (watched.filed++ == 0) raise();
}

void ChannelState::message_taken(const Slot& message) noexcept {
  if (message.filed == watched.round && watched.filed > 0) --watched.filed;
}

void ChannelState::settle(Slot& slot) noexcept {
  switch (slot.state) {
    case SlotState::detached: tell_scope(slot, work_failure(slot.completion)); break;
    case SlotState::orphaned:
      if (slot.queue == &receives && slot.completion.ok()) count_dropped_message();
      orphan(slot).destroy(orphan(slot).bytes);
      break;
    case SlotState::batch: slot.state = SlotState::batch_done; return;
    default: return;  // Chained: only its status counts.
  }
  slot.completion = std::bit_cast<Completion>(ibv_wc{});
  slot.queue->release(slot);
}

void ChannelState::tell_scope(const Slot& slot, const Error& error) noexcept {
  if (slot.scope != &unscoped) ledger.record(*slot.scope, {error, slot.where, WrId{slot.id}});
  --slot.scope->detached;
}

void ChannelState::count_dropped_message() noexcept {
  if (dropped_messages++ == 0)
    log(LogLevel::warning,
        "a message came into a receive whose Pending was dropped: it is lost "
        "(Channel::dropped_messages() counts them)");
}

// ---- Waiting ------------------------------------------------------------------------------------

ChannelState::Turn ChannelState::turn(Patience& patience) noexcept {
  const int count = core->drain();
  if (count > 0 && ending.stage == Ending::Stage::flushing) step_end({});  // Perhaps the markers.
  if (count > 0 && !patience.is_long_busy()) return Turn::again;
  if (count < 0) {
    if (is_over()) return Turn::over;
    end_at_once(core->broken());
    return Turn::again;
  }
  const bool is_late = patience.is_over();
  if (step(patience.now())) return Turn::again;  // Events come before the time limit.
  if (is_late) return Turn::over;
  if (count == 0) patience.pause();
  return Turn::again;
}

// If the peer has no receive, the device repeats the request for ever and reports nothing. All that
// is known is that the request was sent and is not over.
bool ChannelState::awaits_receive(const Slot& slot) const noexcept {
  return slot.queue == &sends && slot.takes_receive && is_in_flight(slot.state) &&
         !options.max_rnr_retries.retries();
}

Error ChannelState::late(const char* operation, bool for_receive) noexcept {
  return {.code = Errc::timed_out,
          .operation = operation,
          .field = for_receive ? "the peer's receive" : ""};
}

bool ChannelState::is_settled(const Slot& slot) const noexcept {
  return !is_in_flight(slot.state) && (slot.completion.ok() || is_over());
}

bool ChannelCore::is_ready(const Slot& slot, std::uint64_t id) noexcept {
  if ((id & kRefused) != 0 || slot.id != id) return true;
  ChannelState& state = whole(*this);
  if (!state.is_settled(slot)) state.look_once();
  return state.is_settled(slot);
}

void ChannelState::look_once() noexcept {
  [[maybe_unused]] const Entry entry{*this};
  if (core->drain() < 0) end_at_once(core->broken());
  step_now();
}

void ChannelState::step_now() noexcept {
  step(is_timed() ? Clock::now() : Clock::time_point{});  // Usually no step needs the time.
}

bool ChannelCore::ready_within(const Slot& slot, std::uint64_t id, Deadline deadline) noexcept {
  if ((id & kRefused) != 0) return true;
  ChannelState& state = whole(*this);
  Patience patience{state, deadline};
  return state.wait_until([&] { return slot.id != id || state.is_settled(slot); }, patience);
}

bool ChannelCore::await(Slot& slot, std::uint64_t id, Deadline deadline, Memory memory) noexcept {
  if ((id & kRefused) != 0) {  // The channel may be gone.
    last_result.unproven = false;
    last_result.error = refusal(id);
    return false;
  }
  ChannelState& state = whole(*this);
  if (slot.state == SlotState::batch && slot.id == id && state.arrived_batch(slot)) return true;
  Patience patience{state, deadline};
  return state.await_for(slot, id, patience, memory);
}

bool ChannelState::await_for(Slot& slot, std::uint64_t id, Patience& patience,
                             Memory memory) noexcept {
  last_result.unproven = false;
  last_result.error = {};
  // On a shared queue the slot may belong to another channel.
  if (slot.id != id || slot.queue->channel != this) {
    last_result.error =
        (id & kRefused) != 0 ? refusal(id) : Error{.code = Errc::stale, .operation = "wait"};
    return false;
  }
  // After a time-out the channel is ended, so the slot is not in flight. One failure moves a
  // connected queue pair to the error state, and then nothing more can succeed. The failure is
  // reported when the channel has ended, because then its reason is known.
  if (!wait_until([&] { return is_settled(slot); }, patience))
    expire(late("wait", awaits_receive(slot)));
  if (!ending.proven) {
    if (memory == Memory::borrowed) device_not_stopped();
    last_result.unproven = true;
  }
  last_result.completion = slot.completion;
  const bool succeeded = slot.completion.ok();
  // The device does not know why the channel ended. This concerns work that was flushed, and a peer
  // that does not answer because it is gone.
  if (!succeeded) {
    const bool is_told =
        cause && (slot.completion.status() == WorkStatus::flushed || is_peer_end(*cause));
    last_result.error = is_told ? *cause : work_failure(slot.completion);
  }
  take(slot);  // May be the last result of a channel that is gone; nothing of it is left then.
  return succeeded;
}

// ---- Taking results -----------------------------------------------------------------------------

void ChannelState::take(Slot& slot) noexcept {
  // A result that was taken needs no poll() any more.
  if (slot.filed == watched.round && watched.filed > 0) --watched.filed;
  if (slot.state == SlotState::batch_done) {
    release_batch(*slot.queue, slot);
  } else if (slot.state != SlotState::parked) {
    slot.queue->release(slot);
  } else {
    // A parked slot never returns to a free list. After the end of the channel it keeps the state
    // alive, which is deleted with the last of them.
    slot.state = SlotState::free;
    slot.id += kGeneration;
    if (ending.abandoned && --ending.parked == 0) delete this;
  }
}

/// Like arrived_fresh(), for a batch.
bool ChannelState::arrived_batch(Slot& last) noexcept {
  ibv_wc polled[kPollBatch];
  const int count = cq->context->ops.poll_cq(cq, kPollBatch, polled);
  if (count != 1 || polled[0].wr_id != last.id || polled[0].status != IBV_WC_SUCCESS) {
    if (count > 0) file(polled, count);
    return false;
  }
  land_batch(last, SIZE_MAX);
  last_result.completion = std::bit_cast<Completion>(polled[0]);
  release_batch(*last.queue, last);
  return true;
}

bool abandon(ChannelCore& channel, Slot& slot, void* buffer,
             void (*move)(void* to, void* from) noexcept,
             void (*destroy)(void*) noexcept) noexcept {
  ChannelState& state = whole(channel);
  if (is_in_flight(slot.state)) {
    Orphan& kept = state.orphan(slot);
    move(kept.bytes, buffer);
    kept.destroy = destroy;
    slot.state = SlotState::orphaned;
    slot.waiter = 0;
    return true;
  }
  const bool safe = state.ending.proven;
  if (!slot.completion.ok()) state.heed_interrupts();
  state.take(slot);
  return safe;
}

}  // namespace verbatim::detail
