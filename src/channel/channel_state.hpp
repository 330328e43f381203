// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The part of a channel that keeps its address when the Channel is moved.
///
/// These files define its members: posting.cpp (refusals, batches), waiting.cpp, stepping.cpp,
/// peer_end.cpp, keepalive.cpp, scope.cpp, channel_end.cpp; recycle() and creation are in
/// prepared_channel.cpp.
///
/// Everything that a channel does in the background is a step that never waits. Call step() when
/// completions or the link have news, and at next_deadline(). Blocking calls do so (turn()), and so
/// does Channel::poll().
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <stop_token>
#include <vector>

#include "channel/completion_core.hpp"
#include "channel/leave.hpp"
#include "channel/link.hpp"
#include "channel/patience.hpp"
#include "provider/fork_guard.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/detail/event_source.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim/channel/detail/last_result.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/channel/pending.hpp"
#include "verbatim/channel/scope.hpp"
#include "verbatim/verbs/queue_pair.hpp"

namespace verbatim::detail {

struct Inbox;
struct Interrupt;

/// The buffer of a dropped handle, until its completion. Not in the slot, because it is rarely
/// needed.
struct Orphan {
  alignas(std::max_align_t) std::byte bytes[kOrphanBytes];
  void (*destroy)(void*) noexcept;
};

/// Destroys what an operation on borrowed memory left when its handle was dropped.
void keep_nothing(void* kept) noexcept;
/// The device may still use memory that the library cannot keep. Ends the process.
VERBATIM_COLD void device_not_stopped() noexcept;

/// What scopes have to report; each entry lasts until its scope is over.
struct ScopeLedger {
  struct Refused {
    std::uint64_t id;
    ScopeState* scope;
    ScopeFailure failure;
  };
  struct Failed {
    ScopeState* scope;
    bool is_shared;
    ScopeFailure failure;
  };
  std::vector<Refused> refused{};  ///< Refused posts that nobody has waited for yet.
  std::vector<Failed> failed{};

  void record(ScopeState& scope, const ScopeFailure& failure);
};

/// For event loops: created at the first call of fd().
struct Watched {
  FileDescriptor epoll{};
  FileDescriptor raised{};  ///< Readable when the device or a call on this channel has news.
  FileDescriptor timer{};
  std::chrono::steady_clock::time_point armed = std::chrono::steady_clock::time_point::max();
  short link_events = 0;    ///< The events of the link in `epoll`; 0: it is not there.
  std::uint32_t round = 1;  ///< For poll().
  std::uint32_t filed = 0;  ///< Completions since the last poll(), found by any call.
};

/// How far the end has come. No member changes once the channel is over, until recycle().
struct Ending {
  using Time = std::chrono::steady_clock::time_point;
  enum class Stage : std::uint8_t {
    open,
    flushing,  ///< The markers are in flight; step_end() continues.
    over,      ///< Nothing is in flight, or `proven` is false.
  };
  Stage stage = Stage::open;
  bool proven = true;              ///< The device has stopped: no DMA can land any more.
  bool destroyed = false;          ///< The queue pair had to be destroyed to prove that.
  bool abandoned = false;          ///< The owner is gone: taking the last result frees everything.
  bool gave_back = false;          ///< The device returned work unasked: it will take no more.
  std::uint32_t parked = 0;        ///< Results that were not taken when the owner was destroyed.
  std::optional<Error> failure{};  ///< The first failed request, until it ends the channel.
  // Of the clock; 0 is never.
  Time news_end{};   ///< Until then the failure waits for news from the link.
  Time peer_gone{};  ///< When the link first reported the peer's end.
  Time flush_end{};  ///< The markers must be back by then.
};

/// The request that proves the path when nothing else does: see keepalive.cpp.
struct Keepalive {
  Slot* slot = nullptr;  ///< Its own, after those of the queues. Null: it is off.
  std::uint64_t seen = 0;
  std::chrono::steady_clock::time_point due{};
};

/// For a driver of several channels: see driving.cpp.
struct Driving {
  struct Clockwork final : Timer {
    explicit Clockwork(ChannelState& of) noexcept;
    ChannelState& channel;
  };
  struct LinkSource final : EventSource {
    explicit LinkSource(ChannelState& of) noexcept;
    ChannelState& channel;
    int fd = -1;       ///< The one that is watched; -1: none.
    short events = 0;  ///< The events it is watched for.
  };
  explicit Driving(ChannelState& of) noexcept : timer(of), link(of) {}

  Clockwork timer;
  LinkSource link;
  ChannelState* next_troubled = nullptr;
  bool is_troubled = false;
  ChannelState* before = nullptr;  ///< All channels of the core are in one list.
  ChannelState* after = nullptr;
  bool is_left = false;  ///< The owner is gone: it ends when its sends are over, or at `left_end`.
  std::chrono::steady_clock::time_point left_end{};
};

struct ChannelState final : ChannelCore, private ForkListener {
  using Clock = std::chrono::steady_clock;
  /// The peer's end counts when nothing from it came for this long.
  static constexpr auto kGrace = std::chrono::milliseconds{2};

  ChannelState(const ChannelOptions& chosen, ProtectionDomain in,
               std::shared_ptr<CompletionCore> on, std::span<Slot> claimed);
  ~ChannelState();

  const std::shared_ptr<CompletionCore> core;
  const std::span<Slot> run;  ///< From the core's slab.
  const ChannelOptions options;
  ProtectionDomain domain;
  std::atomic<bool> interrupted{false};
  std::uint32_t max_receive_elements = 0;
  QpNumber queue_pair_number{};
  std::optional<PreparedQueuePair> prepared{};
  std::optional<QueuePair> queue_pair{};  ///< Valid from connect() on.
  std::unique_ptr<Orphan[]> orphans{};
  std::unique_ptr<ibv_send_wr[]> requests{};
  std::unique_ptr<ibv_recv_wr[]> receive_list{};
  std::optional<Buffer> atomic_result{};
  std::shared_ptr<Interrupt> interrupt;
  Inbox* inbox = nullptr;  ///< Messages in shared receives. Null: it has its own receives.
  Link link{};             ///< Where Listener or dial() met the peer: reports its end.
  Leave leave{};
  Keepalive keepalive{};
  std::optional<std::stop_callback<std::function<void()>>> stop{};
  ScopeLedger ledger{};
  ScopeState unscoped{};  ///< Counts what post_unscoped() has posted; it reports to nobody.
  Watched watched{};
  Driving driving{*this};
  Ending ending{};
  std::optional<Error> cause{};  ///< Why posts are refused.
  std::uint64_t dropped_messages = 0;

  [[nodiscard]] Orphan& orphan(const Slot& slot) const noexcept {
    return orphans[static_cast<std::size_t>(&slot - run.data())];
  }
  [[nodiscard]] bool busy(const OperationQueue& queue) const noexcept;
  /// Whether its queue pair has a receive queue.
  [[nodiscard]] bool has_own_receives() const noexcept;

  // Filing.
  /// Files a completion of one of its slots.
  void take_in(Slot& slot, const ibv_wc& wc) noexcept;
  // For shared receives.
  void receive_failed(const ibv_wc& wc) noexcept;
  void too_many_unread(std::uint32_t limit) noexcept;
  void message_came(Slot& message) noexcept;
  void message_taken(const Slot& message) noexcept;
  /// Makes fd() report what poll() has not seen.
  void raise() noexcept;
  /// Makes fd() wait for the current sources: the link, and next_deadline().
  void rearm() noexcept;

  // Posting.
  /// Detached work without a scope, whose bytes are copied at the post. Its slot is free when it is
  /// over, and a failure ends the channel.
  [[nodiscard]] Ticket post_unscoped(const Write<1>& work,
                                     const std::source_location& where) noexcept {
    const Ticket ticket = post(work, {SlotState::flying, where});
    if (ticket.refused()) [[unlikely]]
      return ticket;
    ticket.slot->state = SlotState::detached;
    ticket.slot->scope = &unscoped;
    ++unscoped.detached;
    return ticket;
  }
  Ticket batch_refused(Slot& last, int os_error, const ibv_send_wr* rejected, Post how) noexcept;

  // Waiting.
  /// Takes completions until `done()` is true. False: the time is over, or the queue broke while
  /// the channel was ending. Events meanwhile may end the channel: then nothing is in flight.
  template <class Done>
  [[nodiscard]] bool wait_until(Done done, Patience& patience) noexcept;
  bool await_for(Slot& slot, std::uint64_t id, Patience& patience, Memory memory) noexcept;
  bool arrived_batch(Slot& last) noexcept;
  /// The time of a call is over; `for_receive`: a message waits for a receive of the peer, or for
  /// the peer itself.
  [[nodiscard]] static Error late(const char* operation, bool for_receive) noexcept;
  [[nodiscard]] bool awaits_receive(const Slot& slot) const noexcept;
  [[nodiscard]] bool awaits_receive() const noexcept {
    return std::ranges::any_of(std::span{sends.first, sends.count},
                               [&](const Slot& slot) { return awaits_receive(slot); });
  }
  /// Polls the completion queue once, and handles the results.
  void look_once() noexcept;
  /// step(), which usually needs no clock.
  void step_now() noexcept;
  /// Whether the result can be taken without a wait: after a failure, once the channel is over.
  [[nodiscard]] bool is_settled(const Slot& slot) const noexcept;
  void take(Slot& slot) noexcept;

  // Background work: see stepping.cpp.
  /// Does what has to be done now: handles interrupts, failures, the link and the clock. Never
  /// waits. True: the channel has begun to end, or has ended.
  bool step(Clock::time_point now) noexcept;
  /// The latest time for the next step(), if neither completions nor the link have news.
  [[nodiscard]] Clock::time_point next_deadline() const noexcept;
  /// Whether step() looks at the clock at all.
  [[nodiscard]] bool is_timed() const noexcept;
  /// The poll(2) events that step() waits for at link.fd(); 0 for none.
  [[nodiscard]] short link_events() const noexcept;
  /// The caller waited for link_events(), and they came.
  void link_is_ready() noexcept { next_look_ = {}; }
  /// Ends the channel if it was interrupted, work failed, or an event says that it is broken.
  /// Without a time it reads the clock if necessary.
  bool heed_interrupts(Clock::time_point now = {}) noexcept;
  /// The first probe comes one interval from now. See keepalive.cpp.
  void begin_keepalive(Clock::time_point now) noexcept;

  // Driven together with others: see driving.cpp.
  /// Whether a Reactor drives it, or did. Without one, its own blocking calls do.
  [[nodiscard]] bool is_driven() const noexcept { return wakeups != &no_wakeups; }
  /// Makes the driver step it at its next look.
  void be_attended() noexcept;
  /// Steps as far as possible, and arranges the next step. The channel may be gone afterwards.
  void attend(Clock::time_point now) noexcept;
  /// An awaited operation needs a look by then.
  void look_by(Slot& slot) noexcept;
  /// Its sends are about to end: the end of each must be noticed.
  [[nodiscard]] bool is_parting() const noexcept { return driving.is_left || leave.has_begun(); }
  void notice_sends() noexcept;
  /// From now on the link reports the peer's end.
  void keep_link(Link met) noexcept;
  void drop_link() noexcept;
  /// Its timer is due.
  void look_at_deadlines() noexcept;
  /// Nobody drives it any more except its own calls. If its owner is gone, it ends now.
  void part_from_driver() noexcept;

  // The end: see channel_end.cpp.
  [[nodiscard]] bool is_over() const noexcept { return ending.stage == Ending::Stage::over; }
  /// It is over, or will be without further calls.
  [[nodiscard]] bool is_ending() const noexcept {
    return cause || ending.failure || ending.gave_back;
  }
  /// No more sends from now on; see Leave. A second call only changes the deadline.
  void start_close(Deadline deadline) noexcept;
  /// No more work from now on: moves to ERR, and posts a marker in each queue. Does not wait.
  void begin_end(const Error& reason) noexcept;
  /// By force, because the completion queue is broken and nothing can be waited for.
  void end_at_once(const Error& reason) noexcept;
  /// Ends it completely: afterwards no operation is in flight, or `proven` is false. A failure that
  /// waits for its reason takes precedence over `reason`.
  void expire(const Error& reason) noexcept;
  /// Waits for the end if is_ending().
  void see_it_end() noexcept;
  /// Waits until none of its sends is in flight. False: the time is over.
  [[nodiscard]] bool finish_sends(Patience& patience) noexcept;
  /// The owner is gone; frees itself when the last parked result has been taken.
  void abandon() noexcept;

  [[nodiscard]] bool in_child() const noexcept { return is_forked(cq->context); }

 private:
  [[nodiscard]] const Slot* first_awaited() const noexcept;
  void set_timer() noexcept;
  void wake_driver() noexcept;
  void watch_link() noexcept;
  void stop_watching() noexcept;
  void join_core() noexcept;
  void leave_core() noexcept;
  /// Like abandon(), but nobody waits.
  void leave_to_driver() noexcept;
  bool step_left(Clock::time_point now) noexcept;
  /// The child has the parent's memory but none of its work: everything is over, with `forked`.
  void forked() noexcept override;
  /// One turn of a wait, after done() returned false.
  enum class Turn : std::uint8_t { again, over };
  Turn turn(Patience& patience) noexcept;
  void settle(Slot& slot) noexcept;
  /// A detached operation has failed.
  void tell_scope(const Slot& slot, const Error& error) noexcept;
  void count_dropped_message() noexcept;
  bool heed_failure(Clock::time_point now) noexcept;
  bool heed_link(Clock::time_point now) noexcept;
  void step_keepalive(Clock::time_point now) noexcept;
  void take_in_keepalive(const ibv_wc& wc) noexcept;
  /// Continues when completions came, or when the flush runs out of time. True: it has ended.
  bool step_end(Clock::time_point now) noexcept;
  [[nodiscard]] bool borrows() const noexcept;
  bool post_markers() noexcept;
  [[nodiscard]] bool are_markers_back() const noexcept;
  bool stop_by_force() noexcept;
  void conclude(bool stopped) noexcept;
  [[nodiscard]] Clock::time_point end_of(Deadline deadline, Clock::time_point start) const noexcept;
  void end_queue(OperationQueue& queue) noexcept;

  Clock::time_point next_look_{};  ///< At the link.
};

[[nodiscard]] inline ChannelState& whole(ChannelCore& channel) noexcept {
  return static_cast<ChannelState&>(channel);
}

template <class Done>
bool ChannelState::wait_until(Done done, Patience& patience) noexcept {
  [[maybe_unused]] const Entry entry{*this};
  while (!done())
    if (turn(patience) == Turn::over) return false;
  return true;
}

/// The slots of a queue, without that of the marker.
[[nodiscard]] inline std::span<Slot> slots_of(const OperationQueue& queue) noexcept {
  return {queue.first, queue.count};
}
/// Posts until `would_block`. Counts them: the straight path does not need this number.
[[nodiscard]] inline std::uint32_t credit(const OperationQueue& queue) noexcept {
  std::uint32_t slots = 0;
  for (const Slot* slot = queue.free; slot != nullptr; slot = slot->next) ++slots;
  return slots;
}
/// For each slot of a batch, from first to last.
template <class Action>
void for_batch(Slot& last, Action action) noexcept {
  for (Slot* slot = last.next;; slot = slot->next) {
    action(*slot);
    if (slot == &last) break;
  }
}
/// Over, without information about how much was written.
inline void land(Slot& slot, std::size_t bytes) noexcept {
  if (slot.flight.in_flight()) dma::completed(slot.flight, bytes);
}
inline void land_batch(Slot& last, std::size_t bytes) noexcept {
  if constexpr (dma::kModelled) for_batch(last, [bytes](Slot& slot) { land(slot, bytes); });
}
/// The device did not take it.
inline void call_off(Slot& slot) noexcept {
  if (slot.flight.in_flight()) dma::withdrawn(slot.flight);
}

}  // namespace verbatim::detail
