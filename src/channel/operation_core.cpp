// SPDX-License-Identifier: MIT OR Apache-2.0
// Everything that is not on the straight path: filing other operations' completions, waiting,
// scopes. The end of a channel is in channel_end.cpp.
#include "verbatim/channel/operation_core.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>

#include "channel/interrupt.hpp"
#include "channel/patience.hpp"
#include "channel/slot_states.hpp"
#include "channel/work_failure.hpp"

namespace verbatim::detail {
namespace {

Error timed_out() noexcept { return {.code = Errc::timed_out, .operation = "wait"}; }

/// Of this thread: errors of refused posts, by the number of the refusal.
struct Refusal {
  std::uint64_t number;
  Error error;
};
constinit thread_local std::array<Refusal, 16> refusals{};
constinit std::atomic<std::uint64_t> refusal_count{0};

/// A handle's id has so many bits for the number.
constexpr std::uint64_t kRefusalNumbers = ~std::uint64_t{0} >> kIndexBits;

}  // namespace

std::uint32_t OperationQueue::credit() const noexcept {
  std::uint32_t slots = 0;
  for (const Slot* slot = free; slot != nullptr; slot = slot->next) ++slots;
  return slots;
}

int ChannelState::drain() noexcept {
  ibv_wc polled[kPollBatch];
  const int count = cq->context->ops.poll_cq(cq, kPollBatch, polled);
  if (count > 0) file(polled, count);
  return count;
}

void ChannelState::file(const ibv_wc* polled, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = polled[i];
    Slot& slot = this->slot(wc.wr_id);
    const bool awaited = is_in_flight(slot.state) || slot.state == SlotState::chained;
    if (slot.id != wc.wr_id || !awaited) [[unlikely]]
      continue;  // Of an operation that was finished another way, or nobody's.
    if (slot.state == SlotState::batch)
      land_batch(slot, wc.status == IBV_WC_SUCCESS ? SIZE_MAX : 0);
    else if (slot.state != SlotState::chained || wc.status != IBV_WC_SUCCESS)
      land(slot.flight, wc);
    if (slot.state == SlotState::detached && wc.status == IBV_WC_SUCCESS) {
      --slot.scope->detached;
      slot.queue->release(slot);
      continue;
    }
    // Inside a batch, to let the device free its places: the last one tells.
    if (slot.state == SlotState::chained && wc.status == IBV_WC_SUCCESS) continue;
    slot.completion = UnsafeAccess::completion(wc);
    // The first failure is the cause of what follows: it is flushed.
    if (wc.status == IBV_WC_WR_FLUSH_ERR) {
      gave_back = true;
      // Nobody waits for it by itself, and the channel ends at the next look: then the reason is
      // known, and the scope is told.
      if (slot.state == SlotState::detached) continue;
    } else if (wc.status != IBV_WC_SUCCESS && !failure) {
      failure = work_failure(slot.completion);
    }
    if (slot.state == SlotState::flying) {
      slot.state = SlotState::done;
    } else {
      settle(slot);
    }
  }
}

void ChannelState::settle(Slot& slot) noexcept {
  switch (slot.state) {
    case SlotState::detached:
      record(*slot.scope, work_failure(slot.completion));
      --slot.scope->detached;
      break;
    case SlotState::orphaned: orphan(slot).destroy(orphan(slot).bytes); break;
    case SlotState::batch: slot.state = SlotState::batch_done; return;
    default: return;  // Chained: only its status counts.
  }
  UnsafeAccess::set_ok(slot.completion);
  slot.queue->release(slot);
}

// ---- Posting ------------------------------------------------------------------------------------

Ticket ChannelState::refuse(OperationQueue& queue) noexcept {
  if (!cause) heed_interrupts();
  if (cause)
    return park_refusal({.code = closed ? Errc::closed : Errc::broken,
                         .operation = "post",
                         .field = cause->operation,
                         .value = static_cast<std::uint64_t>(cause->code)});
  return park_refusal({.code = Errc::would_block,
                       .operation = "post",
                       .field = &queue == &send_queue ? "max_sends" : "max_receives",
                       .value = queue.count,
                       .limit = queue.count});
}

Ticket ChannelState::refuse_send(PostShape shape) noexcept {
  if (interrupted.load()) return refuse(send_queue);
  return park_refusal(UnsafeAccess::refused(*queue_pair, shape));
}
/// `rest`: so many requests have found no slot.
Ticket ChannelState::refuse_batch(std::size_t rest) noexcept {
  const std::size_t requests = send_queue.credit() + rest;
  if (cause || interrupted.load() || requests <= send_queue.count) return refuse(send_queue);
  return park_refusal({.code = Errc::limit_exceeded,  // It will never fit.
                       .operation = "post",
                       .field = "max_sends",
                       .value = requests,
                       .limit = send_queue.count});
}
Ticket ChannelState::refuse_receive(std::size_t elements) noexcept {
  if (interrupted.load()) return refuse(receive_queue);
  return park_refusal(UnsafeAccess::too_many_elements(elements, max_receive_elements));
}

Ticket ChannelState::park_refusal(const Error& error) noexcept {
  const std::uint64_t number =
      (refusal_count.fetch_add(1, std::memory_order_relaxed) + 1) & kRefusalNumbers;
  refusals[number % refusals.size()] = {number, error};
  return {&no_slot, number << kIndexBits | kRefused | static_cast<std::uint64_t>(error.code)};
}

Error ChannelState::refusal(std::uint64_t id) noexcept {
  if (id == kRefused) return {.code = Errc::stale, .operation = "wait"};  // Waited for, or moved.
  const std::uint64_t number = id >> kIndexBits;
  const Refusal& parked = refusals[number % refusals.size()];
  if (parked.number == number) return parked.error;
  return {.code = static_cast<Errc>(id & (kRefused - 1)), .operation = "post"};
}

Ticket ChannelState::finish_batch(ibv_send_wr& last_request, Slot& first, Slot& last) noexcept {
  ibv_send_wr* const requests = batch_requests.get();
  // A signal at least for every half of the queue, so that the device can free its places.
  const std::ptrdiff_t end = &last_request - requests;
  for (std::ptrdiff_t i = signal_every - 1; i < end; i += signal_every)
    requests[i].send_flags |= IBV_SEND_SIGNALED;
  last_request.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* const behind = std::exchange(last_request.next, nullptr);
  last.state = SlotState::batch;
  send_queue.free = std::exchange(last.next, &first);
  ibv_send_wr* rejected = nullptr;
  const int failed = raw->context->ops.post_send(raw, requests, &rejected);
  last_request.next = behind;
  if (failed != 0) [[unlikely]]
    return batch_refused(last, failed, rejected);
  return {&last, last.id};
}

Ticket ChannelState::batch_refused(Slot& last, int os_error, const ibv_send_wr* rejected) noexcept {
  Error error = UnsafeAccess::post_failed(raw->context, "ibv_post_send", os_error);
  Slot* const first = last.next;
  last.state = SlotState::chained;
  if (rejected == batch_requests.get()) {
    for_batch(last, [](Slot& slot) { call_off(slot.flight); });
    last.next = std::exchange(send_queue.free, first);
    return park_refusal(error);
  }
  // The device took a part, unsignaled (or does not say): only a flush can end it. Not
  // `would_block`: trying again would send that part twice.
  error.code = Errc::device_failed;
  error.field = "a batch was taken in part";
  expire(error);
  return park_refusal(error);
}

// ---- Waiting ------------------------------------------------------------------------------------

bool ChannelState::is_ready(const Slot& slot, std::uint64_t id) noexcept {
  if ((id & kRefused) != 0 || slot.id != id) return true;
  if (is_in_flight(slot.state)) {
    if (drain() < 0) expire({.code = Errc::device_failed, .operation = "ibv_poll_cq"});
    heed_interrupts();
  }
  return !is_in_flight(slot.state);
}

bool ChannelState::await(Slot& slot, std::uint64_t id, Timeout limit, Memory memory) noexcept {
  if (slot.state == SlotState::batch && slot.id == id && arrived_batch(slot)) return true;
  Patience patience{*this, limit};
  return await(slot, id, patience, memory);
}

bool ChannelState::await(Slot& slot, std::uint64_t id, Patience& patience, Memory memory) noexcept {
  last_result.unproven = false;
  last_result.error = {};
  if ((id & kRefused) != 0) {
    last_result.error = refusal(id);
    return false;
  }
  if (slot.id != id) {
    last_result.error = {.code = Errc::stale, .operation = "wait"};
    return false;
  }
  wait_for(slot, patience);
  if (!proven) {
    if (memory == Memory::borrowed)
      contract_violated("the device cannot be stopped, and may still use borrowed memory", 0, 0,
                        std::source_location::current());
    last_result.unproven = true;
  }
  // One failure sends a connected queue pair to the error state: nothing more can succeed. First,
  // so that the reason is known.
  if (!slot.completion.ok()) heed_interrupts();
  last_result.completion = slot.completion;
  const bool succeeded = slot.completion.ok();
  // What was flushed tells why the channel ended, which the device does not know.
  if (!succeeded)
    last_result.error = slot.completion.status() == WorkStatus::flushed && cause
                            ? *cause
                            : work_failure(slot.completion);
  take(slot);  // Perhaps the last one of a channel that is gone: nothing of it is there afterwards.
  return succeeded;
}

bool ChannelState::look(Patience& patience) noexcept {
  const int count = drain();
  if (count > 0 || heed_interrupts()) return true;
  if (count < 0) {
    expire({.code = Errc::device_failed, .operation = "ibv_poll_cq"});
    return true;
  }
  if (patience.is_over()) return false;
  patience.pause();
  return true;
}

/// When the time is over, the channel is ended: then the slot is not in flight either.
void ChannelState::wait_for(const Slot& slot, Patience& patience) noexcept {
  while (is_in_flight(slot.state)) {
    const int count = drain();
    if (count > 0) continue;
    if (count < 0) {
      expire({.code = Errc::device_failed, .operation = "ibv_poll_cq"});
    } else if (heed_interrupts()) {
      continue;
    } else if (patience.is_over()) {
      expire(timed_out());
    } else {
      patience.pause();
    }
  }
}

void ChannelState::sleep(std::chrono::steady_clock::time_point until) noexcept {
  if (!completions.arm()) {  // Cannot be armed: keep looking, but let others run.
    sched_yield();
    return;
  }
  if (drain() != 0) return;  // It came between the last poll and the arming.
  if (!cause && interrupted.load()) return;
  const auto left = std::max(until - Patience::Clock::now(), Patience::Clock::duration::zero());
  const timespec time{.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count(),
                      .tv_nsec = (left % std::chrono::seconds{1}).count()};
  pollfd sources[] = {{.fd = events.fd(), .events = POLLIN, .revents = 0},
                      {.fd = interrupt->fd, .events = POLLIN, .revents = 0}};
  // Who ends the channel has heeded the interrupt.
  if (ppoll(sources, cause ? 1 : 2, &time, nullptr) > 0 && sources[0].revents != 0)
    acknowledge_events();
}

void ChannelState::acknowledge_events() noexcept {
  // Takes and acknowledges. If it cannot, the next sleep is shorter, and no more than that.
  [[maybe_unused]] const auto taken = events.wait(std::chrono::nanoseconds{0});
}

bool ChannelState::heed_interrupts() noexcept {
  if (cause) return false;
  if (failure) {
    expire(*failure);
    return true;
  }
  if (interrupted.load()) {
    expire({.code = Errc::cancelled, .operation = "cancel"});
    return true;
  }
  constexpr EventFlags kFatal = EventType::queue_pair_fatal | EventType::queue_pair_request_error |
                                EventType::queue_pair_access_error;
  const EventFlags seen = queue_pair ? queue_pair->events() : EventFlags{};
  if (seen.has_any(kFatal) || !completions.events().empty() ||
      domain.context().events().has(EventType::device_fatal)) {
    expire({.code = Errc::device_failed,
            .operation = "async event",
            .field = "events",
            .value = (seen | completions.events() | domain.context().events()).bits});
    return true;
  }
  // Without a word why: the queue pair is in the error state all the same.
  if (gave_back) {
    expire({.code = Errc::work_failed,
            .operation = "work request",
            .field = name_of(WorkStatus::flushed),
            .value = static_cast<std::uint64_t>(WorkStatus::flushed)});
    return true;
  }
  return false;
}

// ---- Taking results -----------------------------------------------------------------------------

void ChannelState::take(Slot& slot) noexcept {
  if (slot.state == SlotState::batch_done) {
    release_batch(slot);
  } else if (slot.state != SlotState::parked) {
    slot.queue->release(slot);
  } else {
    // Never back to a free list. After the channel it holds the core, which goes with the last.
    slot.state = SlotState::free;
    slot.id += kGeneration;
    if (closed && --parked == 0) delete this;
  }
}

/// Back to the free list, all at once.
void ChannelState::release_batch(Slot& last) noexcept {
  // The others' ids need not change: nobody has a handle to them, and what the device says of them
  // it says before this one.
  last.id += kGeneration;
  last.state = SlotState::free;
  last.next = std::exchange(send_queue.free, last.next);
}

/// As arrived_fresh(), of a batch.
bool ChannelState::arrived_batch(Slot& last) noexcept {
  ibv_wc polled[kPollBatch];
  const int count = cq->context->ops.poll_cq(cq, kPollBatch, polled);
  if (count != 1 || polled[0].wr_id != last.id || polled[0].status != IBV_WC_SUCCESS) {
    if (count > 0) file(polled, count);
    return false;
  }
  land_batch(last, SIZE_MAX);
  last_result.completion = UnsafeAccess::completion(polled[0]);
  release_batch(last);
  return true;
}

/// A failure flushes everything behind it: the first one is the cause.
Completion ChannelState::first_failure_of(const Slot& last) noexcept {
  if (last.completion.ok()) return last.completion;
  const Slot* failed = last.next;
  while (failed->completion.ok()) failed = failed->next;
  return failed->completion;
}

bool ChannelState::abandon(Slot& slot, void* buffer, void (*move)(void* to, void* from) noexcept,
                           void (*destroy)(void*) noexcept) noexcept {
  if (is_in_flight(slot.state)) {
    Orphan& kept = orphan(slot);
    move(kept.bytes, buffer);
    kept.destroy = destroy;
    slot.state = SlotState::orphaned;
    return true;
  }
  const bool safe = proven;
  if (!slot.completion.ok()) heed_interrupts();
  take(slot);
  return safe;
}

// ---- Scopes -------------------------------------------------------------------------------------

void ChannelState::record(ScopeState& scope, const Error& error) noexcept {
  // The room was made with the slab; a second scope that fails at once makes its own.
  if (!scope.failures) scope.failures = std::move(spare_failures);
  if (!scope.failures) scope.failures = std::make_unique<std::vector<Error>>();
  scope.failures->push_back(error);
}

bool ChannelState::make_room(OperationQueue& queue, std::uint64_t refused, ScopeState& scope,
                             std::chrono::steady_clock::time_point& since) noexcept {
  const Error error = refusal(refused);
  if (error.code != Errc::would_block) {
    record(scope, error);
    return false;
  }
  Patience patience{*this, kChannelTimeout, since};
  // At least one look: with a free slot here it was the device that had no room.
  do {
    if (!look(patience)) expire(timed_out());
  } while (queue.free == nullptr && !cause);
  since = patience.start();
  if (cause) record(scope, error);  // It was never posted; the channel knows why.
  return !cause;
}

void ChannelState::finish(ScopeState& scope) noexcept {
  Patience patience{*this, kChannelTimeout};
  while (scope.detached != 0)
    if (!look(patience)) expire(timed_out());
  collect(send_queue, scope);
  collect(receive_queue, scope);
  // A failure that nobody waited for ends the channel too.
  if (scope.failures != nullptr) heed_interrupts();
}

/// Over the queue's own slots, until the scope's last handle: a stack keeps busy slots in front.
void ChannelState::collect(OperationQueue& queue, ScopeState& scope) noexcept {
  for (Slot* slot = queue.first; scope.handles != 0 && slot != queue.first + queue.count; ++slot) {
    if (slot->scope != &scope || slot->state <= SlotState::chained) continue;
    if (!await(*slot, slot->id, kChannelTimeout, Memory::borrowed))
      record(scope, last_result.error);
    --scope.handles;
  }
}

}  // namespace verbatim::detail
