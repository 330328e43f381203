// SPDX-License-Identifier: MIT OR Apache-2.0
// The end of a channel: by a deadline, a cancel, a failure or a destructor. Each step is a stronger
// way to make sure that the device no longer touches the memory of an operation:
//
//    begin_end()   stops posts, moves the queue pair to ERR, and posts a marker behind
//                  everything else in each queue
//    step_end()    when both markers are back, so is everything before them. If their time is
//                  over first, it destroys the queue pair: that is synchronous, and final proof
//
// Neither of them waits. expire() calls both and waits in between, for a caller that needs the
// proof at once. start_close() comes before them in an orderly close; see leave.hpp.
#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

#include "channel/channel_state.hpp"
#include "channel/shared_receives.hpp"
#include "channel/slot_states.hpp"
#include "verbatim/base/check.hpp"
#include "verbatim/base/log.hpp"

namespace verbatim::detail {
namespace {

std::atomic<std::size_t> quarantined{0};

/// The completion that the device would report, for work that it returned without reporting it.
Completion flushed(std::uint64_t id) noexcept {
  ibv_wc wc{};
  wc.wr_id = id;
  wc.status = IBV_WC_WR_FLUSH_ERR;
  return std::bit_cast<Completion>(wc);
}

/// A failure flushes everything behind it, so the first failure is the cause.
Completion first_failure_of(const Slot& last) noexcept {
  if (last.completion.ok()) return last.completion;
  const Slot* failed = last.next;
  while (failed->completion.ok()) failed = failed->next;
  return failed->completion;
}

void forget(Slot& slot) noexcept {
  slot.state = SlotState::free;
  slot.id += kGeneration;
}

constinit std::mutex quarantine_mutex;
// What is kept stays reachable, so that leak checkers do not report it.
constinit std::vector<void*>* quarantine_list = nullptr;

}  // namespace

void quarantine(void* kept, std::size_t buffers) noexcept {
  quarantined += buffers;
  try {
    const std::lock_guard lock{quarantine_mutex};
    if (quarantine_list == nullptr) quarantine_list = new std::vector<void*>;
    quarantine_list->push_back(kept);
  } catch (const std::bad_alloc&) {
    log(LogLevel::warning, "no memory to note what is kept: leak checkers may report it");
  }
  log(LogLevel::error,
      "a device could not be stopped: a buffer that it may still use is kept for ever");
}

void device_not_stopped() noexcept {
  contract_violated("the device cannot be stopped, and may still use borrowed memory", 0, 0,
                    std::source_location::current());
}

void ChannelState::start_close(Deadline deadline) noexcept {
  const Clock::time_point now = Clock::now();
  if (cause && !leave.has_begun()) {
    // A peer that closed may be waiting for our "done". A peer that is lost is not.
    if (*cause == Errc::peer_closed) static_cast<void>(link.say_done());
    drop_link();
    return;
  }
  be_attended();
  leave.begin(end_of(deadline, now));
  end_of_message.store(0);  // Our "done" promises that no more sends follow.
  notice_sends();
  step(now);
  rearm();
}

Deadline::Clock::time_point ChannelState::end_of(Deadline deadline,
                                                 Clock::time_point start) const noexcept {
  if (deadline.kind() == Deadline::Kind::own) deadline = Deadline{options.timeout};
  return deadline.end(start);
}

void ChannelState::begin_end(const Error& reason) noexcept {
  if (cause) return;
  cause = reason;  // First, so that nothing below ends it again.
  be_attended();
  // A marker does not cover work that is posted behind it.
  end_of_message.store(0);
  end_of_elements.store(0);
  ending.flush_end = end_of(options.flush_timeout, Clock::now());
  ending.stage = Ending::Stage::flushing;
  if (!queue_pair || !queue_pair->move_to_error() || !post_markers()) {
    conclude(stop_by_force());
    return;
  }
  // Some devices (rxe) look for receives to flush only at the transition, so move to ERR once more.
  [[maybe_unused]] const auto again = queue_pair->move_to_error();
}

bool ChannelState::step_end(Clock::time_point now) noexcept {
  if (ending.stage != Ending::Stage::flushing) return true;
  if (are_markers_back()) {
    Raw::nothing_left(*queue_pair);
    conclude(true);
  } else if (now >= ending.flush_end) {
    conclude(stop_by_force());
  }
  return is_over();
}

void ChannelState::end_at_once(const Error& reason) noexcept {
  begin_end(reason);
  if (ending.stage == Ending::Stage::flushing) conclude(stop_by_force());
}

void ChannelState::expire(const Error& reason) noexcept {
  if (!ending.failure) begin_end(reason);
  see_it_end();
}

void ChannelState::see_it_end() noexcept {
  Patience patience{*this, kForever};  // Each of its steps has its own time limit.
  static_cast<void>(wait_until([&] { return is_over(); }, patience));
}

void ChannelState::conclude(bool stopped) noexcept {
  ending.proven = stopped;
  ending.stage = Ending::Stage::over;
  // Flushed work only showed that something failed. By now the cause may be known.
  if (*cause == Errc::work_failed && ending.failure) cause = ending.failure;
  // This must come before any wait in a scope's closure returns, because the library cannot keep
  // that memory.
  if (!stopped && borrows()) device_not_stopped();
  end_queue(sends);
  end_queue(receives);
  if (keepalive.slot != nullptr) forget(*keepalive.slot);
  if (inbox != nullptr) {
    if (stopped) inbox->shared.reclaim(*inbox);  // First, because the other forgets what it held.
    if (ending.destroyed && queue_pair) inbox->shared.vanished(*inbox, stopped);
    inbox->tell_end(*cause);
  }
  if (leave.has_begun()) drop_link();  // Last, because it shows the peer that we are gone.
  raise();
  if (Slot& marker = sends.first[sends.count]; marker.waiter != 0) core->wakeups.link(marker);
}

/// Whether the device has work of a scope, or of a dropped handle on borrowed memory.
bool ChannelState::borrows() const noexcept {
  return std::ranges::any_of(run, [&](const Slot& slot) {
    return is_in_flight(slot.state) &&
           ((slot.scope != nullptr && slot.scope != &unscoped) ||
            (slot.state == SlotState::orphaned && orphan(slot).destroy == keep_nothing));
  });
}

bool ChannelState::busy(const OperationQueue& queue) const noexcept {
  return std::ranges::any_of(slots_of(queue),
                             [](const Slot& slot) { return is_in_flight(slot.state); });
}

bool ChannelState::has_own_receives() const noexcept {
  return inbox == nullptr || !inbox->shared.queue;
}

bool ChannelState::stop_by_force() noexcept {
  // Files what has completed. Some devices remove completions together with the queue pair, others
  // leave them.
  const auto drain_all = [&] {
    for (std::uint64_t looks = 0; looks <= mask && core->drain() > 0; ++looks) {
    }
  };
  drain_all();
  const bool done =
      queue_pair ? queue_pair->destroy().has_value() : !prepared || prepared->destroy().has_value();
  ending.destroyed = true;
  drain_all();
  // After a poll that found the queue empty, the ledger gives the entries of this queue pair to the
  // next one.
  [[maybe_unused]] const auto seen = core->sweep();
  return done;
}

bool ChannelState::post_markers() noexcept {
  Slot& sent = sends.first[sends.count];
  Slot& received = receives.first[receives.count];
  for (Slot* const marker : {&sent, &received}) {
    if (marker == &received && !has_own_receives()) continue;
    marker->id += kGeneration;
    marker->state = SlotState::flying;
    marker->scope = nullptr;
  }
  ibv_send_wr send{};
  send.wr_id = sent.id;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_recv_wr receive{};
  receive.wr_id = received.id;
  ibv_send_wr* bad_send = nullptr;
  ibv_recv_wr* bad_receive = nullptr;
  return call(raw, &send, &bad_send) == 0 &&
         (!has_own_receives() || call(raw, &receive, &bad_receive) == 0);
}

bool ChannelState::are_markers_back() const noexcept {
  return !is_in_flight(sends.first[sends.count].state) &&
         !is_in_flight(receives.first[receives.count].state);
}

/// Ends the work of a queue. Whatever is still in flight is over, because the markers or the end of
/// the queue pair have overtaken it.
void ChannelState::end_queue(OperationQueue& queue) noexcept {
  std::size_t kept = 0;
  // Batches come first, because their result is in the slots of their requests.
  for (Slot& slot : slots_of(queue)) {
    if (slot.state == SlotState::batch) slot.completion = flushed(slot.id);
    if (slot.state == SlotState::batch || slot.state == SlotState::batch_done) {
      slot.completion = first_failure_of(slot);
      slot.state = SlotState::done;
      slot.deadline = slot.id;
    }
  }
  for (Slot& slot : slots_of(queue)) {
    if (ending.proven) land(slot, 0);
    if (slot.state == SlotState::flying || slot.state == SlotState::awaited ||
        slot.state == SlotState::noticed || slot.state == SlotState::detached) {
      slot.completion = flushed(slot.id);
      slot.filed = 0;  // The device did not file it.
    }
    switch (slot.state) {
      case SlotState::detached:
        tell_scope(slot, *cause);
        forget(slot);
        break;
      case SlotState::orphaned:
        if (ending.proven)
          orphan(slot).destroy(orphan(slot).bytes);
        else
          ++kept;  // The buffer stays in memory that is never freed.
        forget(slot);
        break;
      case SlotState::chained: forget(slot); break;
      case SlotState::awaited:
      case SlotState::noticed: slot.deadline = slot.id; [[fallthrough]];
      case SlotState::flying:
      case SlotState::done:
        slot.state = SlotState::parked;
        if (slot.waiter != 0 && slot.deadline == slot.id) core->wakeups.link(slot);
        break;
      default: break;
    }
  }
  // Nothing needs them again, because a channel without proof cannot be recycled.
  if (kept != 0) quarantine(orphans.release(), kept);
  queue.free = nullptr;
}

void ChannelState::forked() noexcept {
  // Does only what needs no lock, so it frees no buffer.
#if VERBATIM_IS_CHECKED
  one_thread.inside.store(0, std::memory_order_relaxed);  // Those were the parent's threads.
#endif
  cause = Error{.code = Errc::forked, .operation = "fork"};
  ending.stage = Ending::Stage::over;
  end_of_message.store(0);
  end_of_elements.store(0);
  for (Slot& slot : run) {
    switch (slot.state) {
      case SlotState::detached: --slot.scope->detached; [[fallthrough]];
      case SlotState::orphaned:
      case SlotState::chained: forget(slot); break;
      case SlotState::awaited:
      case SlotState::noticed:
      case SlotState::flying:
      case SlotState::batch:
      case SlotState::batch_done:
      case SlotState::done:
        slot.completion = flushed(slot.id);
        slot.state = SlotState::parked;
        break;
      default: break;
    }
  }
  if (keepalive.slot != nullptr) forget(*keepalive.slot);
  if (inbox != nullptr) inbox->end = cause;
  sends.free = receives.free = nullptr;
}

bool ChannelState::finish_sends(Patience& patience) noexcept {
  // The last send may have failed, and then the channel ends.
  return wait_until([&] { return is_over() || (!is_ending() && !busy(sends)); }, patience);
}

void ChannelState::abandon() noexcept {
  check(open_scopes == 0, "Channel: destroyed inside its own scope");
  if (core->driver != nullptr && !borrows() && !in_child()) return leave_to_driver();
  // The connection is closed last, even if results that were not taken keep the state alive. The
  // peer may be waiting for us, and this shows it that we are gone.
  stop_watching();
  const Link last = std::move(link);
  Patience patience{*this, options.flush_timeout};
  static_cast<void>(finish_sends(patience));
  expire({.code = Errc::closed, .operation = "close"});
  ending.abandoned = true;
  stop.reset();
  ending.parked =
      static_cast<std::uint32_t>(std::ranges::count(run, SlotState::parked, &Slot::state));
  if (ending.parked == 0) delete this;
}

}  // namespace verbatim::detail

namespace verbatim {

std::size_t quarantined_buffers() noexcept { return detail::quarantined.load(); }

}  // namespace verbatim
