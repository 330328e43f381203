// SPDX-License-Identifier: MIT OR Apache-2.0
// The end of a channel: a deadline, a cancel, a failure, a destructor. Each step is a stronger way
// to make certain that the device will not touch the memory of an operation any more.
#include <atomic>
#include <mutex>
#include <new>
#include <vector>

#include "channel/interrupt.hpp"
#include "channel/patience.hpp"
#include "channel/slot_states.hpp"
#include "verbatim/base/log.hpp"
#include "verbatim/channel/channel.hpp"

namespace verbatim::detail {
namespace {

std::atomic<std::size_t> quarantined{0};

/// As the device would report it, for work that it gave back without a word.
Completion flushed(std::uint64_t id) noexcept {
  ibv_wc wc{};
  wc.wr_id = id;
  wc.status = IBV_WC_WR_FLUSH_ERR;
  return UnsafeAccess::completion(wc);
}

}  // namespace

void quarantine(void* kept, std::size_t buffers) noexcept {
  quarantined += buffers;
  static std::mutex mutex;
  // Reachable for ever: not a leak.
  static auto* const all = new (std::nothrow) std::vector<void*>;
  const std::lock_guard lock{mutex};
  if (all != nullptr) all->push_back(kept);
  log(LogLevel::error,
      "a device could not be stopped: a buffer that it may still use is kept for ever");
}

void ChannelState::expire(const Error& reason) noexcept {
  if (cause) return;
  cause = reason;  // First, so that nothing below comes here again.
  proven = stop_device();
  // What was flushed told that something failed; now it may be known what.
  if (reason == Errc::work_failed && failure) cause = failure;
  // Before any wait in the closure returns: its memory is not ours to keep.
  if (!proven && borrows())
    contract_violated("the device cannot be stopped, and may still use borrowed memory", 0, 0,
                      std::source_location::current());
  end_queue(send_queue);
  end_queue(receive_queue);
}

/// Whether the device has work of a scope.
bool ChannelState::borrows() const noexcept {
  for (const OperationQueue* queue : {&send_queue, &receive_queue})
    for (const Slot* slot = queue->first; slot != queue->first + queue->count; ++slot)
      if (is_in_flight(slot->state) && slot->scope != nullptr) return true;
  return false;
}

bool ChannelState::stop_device() noexcept {
  if (queue_pair && queue_pair->move_to_error() && flush_with_markers()) return true;
  // What is over already: some devices take it away with the queue pair, others leave it.
  const auto drain_all = [&] {
    for (std::uint64_t looks = 0; looks <= mask && drain() > 0; ++looks) {
    }
  };
  drain_all();
  // Destroying is synchronous, and the final proof.
  const bool done =
      queue_pair ? queue_pair->destroy().has_value() : !prepared || prepared->destroy().has_value();
  destroyed = true;
  drain_all();
  return done;
}

/// A marker behind everything else in each queue: when both are back, so is all before them.
bool ChannelState::flush_with_markers() noexcept {
  Slot& sent = send_queue.marker();
  Slot& received = receive_queue.marker();
  for (Slot* const marker : {&sent, &received}) {
    marker->id += kGeneration;
    marker->state = SlotState::flying;
  }
  ibv_send_wr send{};
  send.wr_id = sent.id;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_recv_wr receive{};
  receive.wr_id = received.id;
  ibv_send_wr* bad_send = nullptr;
  ibv_recv_wr* bad_receive = nullptr;
  if (raw->context->ops.post_send(raw, &send, &bad_send) != 0 ||
      raw->context->ops.post_recv(raw, &receive, &bad_receive) != 0)
    return false;
  // Some devices (rxe) look for receives to give back only at the transition: once more.
  [[maybe_unused]] const auto again = queue_pair->move_to_error();
  Patience patience{*this, options.flush_timeout};
  while (is_in_flight(sent.state) || is_in_flight(received.state)) {
    const int count = drain();
    if (count > 0) continue;
    if (count < 0 || patience.is_over()) return false;
    patience.pause();
  }
  return true;
}

/// What is still in flight was overtaken by the markers or by the queue pair's end: it is over.
void ChannelState::end_queue(OperationQueue& queue) noexcept {
  Slot* const end = queue.first + queue.count;
  std::size_t kept = 0;
  // Batches first: what they tell is in the slots of their requests.
  for (Slot* slot = queue.first; slot != end; ++slot) {
    if (slot->state == SlotState::batch) slot->completion = flushed(slot->id);
    if (slot->state == SlotState::batch || slot->state == SlotState::batch_done) {
      slot->completion = first_failure_of(*slot);
      slot->state = SlotState::done;
    }
  }
  for (Slot* slot = queue.first; slot != end; ++slot) {
    if (proven) land(slot->flight, 0);
    if (slot->state == SlotState::flying || slot->state == SlotState::detached)
      slot->completion = flushed(slot->id);
    switch (slot->state) {
      case SlotState::detached:
        record(*slot->scope, *cause);
        --slot->scope->detached;
        slot->state = SlotState::free;
        slot->id += kGeneration;
        break;
      case SlotState::orphaned:
        if (proven) {
          orphan(*slot).destroy(orphan(*slot).bytes);
        } else {
          ++kept;  // The buffer stays where it is, in memory that is never freed.
        }
        slot->state = SlotState::free;
        slot->id += kGeneration;
        break;
      case SlotState::chained:
        slot->state = SlotState::free;
        slot->id += kGeneration;
        break;
      case SlotState::flying:
      case SlotState::done: slot->state = SlotState::parked; break;
      default: break;
    }
  }
  // Not needed again: there is no recycling without proof.
  if (kept != 0) quarantine(orphans.release(), kept);
  queue.free = nullptr;
}

bool ChannelState::finish_sends(Timeout limit) noexcept {
  const auto busy = [&] {
    for (Slot* slot = send_queue.first; slot != send_queue.first + send_queue.count; ++slot)
      if (is_in_flight(slot->state)) return true;
    return false;
  };
  Patience patience{*this, limit};
  while (!cause && busy())
    if (!look(patience)) return false;
  heed_interrupts();  // The last one may have failed.
  return true;
}

void ChannelState::close() noexcept {
  check(open_scopes == 0, "Channel: destroyed inside its own scope");
  static_cast<void>(finish_sends(options.flush_timeout));
  expire({.code = Errc::closed, .operation = "close"});
  closed = true;
  stop.reset();
  for (const OperationQueue* queue : {&send_queue, &receive_queue})
    for (Slot* slot = queue->first; slot != queue->first + queue->count; ++slot)
      if (slot->state == SlotState::parked) ++parked;
  if (parked == 0) delete this;
}

}  // namespace verbatim::detail

namespace verbatim {

std::size_t quarantined_buffers() noexcept { return detail::quarantined.load(); }

}  // namespace verbatim
