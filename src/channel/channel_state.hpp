// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file All of a channel that stays where it is when the Channel is moved.
///
/// The files that define its members: posting.cpp (refusals, batches), waiting.cpp, peer_end.cpp,
/// scope.cpp, channel_end.cpp; recycle() and creation are in prepared_channel.cpp.
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
#include "channel/link.hpp"
#include "channel/patience.hpp"
#include "provider/fork_guard.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim/channel/detail/last_result.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/channel/pending.hpp"
#include "verbatim/channel/scope.hpp"
#include "verbatim/verbs/queue_pair.hpp"

namespace verbatim::detail {

struct Interrupt;

/// The buffer of a dropped handle, until its completion. Beside the slots: it is rarely needed.
struct Orphan {
  alignas(std::max_align_t) std::byte bytes[kOrphanBytes];
  void (*destroy)(void*) noexcept;
};

/// Destroys what an operation on borrowed memory left when its handle was dropped.
void keep_nothing(void* kept) noexcept;
/// The device may still use memory that is not ours to keep. Ends the process.
VERBATIM_COLD void device_not_stopped() noexcept;

/// What scopes have to report, each entry until its scope is over.
struct ScopeLedger {
  struct Refused {
    std::uint64_t id;
    ScopeState* scope;
    ScopeFailure failure;
  };
  struct Failed {
    ScopeState* scope;
    ScopeFailure failure;
  };
  std::vector<Refused> refused{};  ///< Posts that were refused, and that nobody waited for yet.
  std::vector<Failed> failed{};

  void record(ScopeState& scope, const ScopeFailure& failure);
};

/// For event loops: made when fd() is first asked for.
struct Watched {
  FileDescriptor epoll{};
  FileDescriptor raised{};  ///< Readable when the device or a call of this channel has news.
  std::uint32_t round = 1;  ///< Of poll().
  std::uint32_t filed = 0;  ///< Completions since the last poll(), by whichever call.
};

/// How far the end has come. No member of it changes once the channel is over, until recycle().
struct Ending {
  enum class Stage : std::uint8_t {
    open,
    flushing,  ///< The markers are on their way; step_end() goes on.
    over,      ///< Nothing is in flight, or `proven` is false.
  };
  Stage stage = Stage::open;
  bool proven = true;        ///< The device has stopped: no DMA can land any more.
  bool destroyed = false;    ///< The queue pair had to be destroyed to prove that.
  bool abandoned = false;    ///< The owner is gone: the last result that is taken frees it all.
  bool gave_back = false;    ///< The device gave work back unasked: it will take no more.
  std::uint32_t parked = 0;  ///< Results that were not taken when the owner went.
  std::optional<Error> failure{};  ///< The first failed request, until it ends the channel.
};

struct ChannelState final : ChannelCore, private ForkListener {
  ChannelState(const ChannelOptions& chosen, ProtectionDomain in,
               std::shared_ptr<CompletionCore> on, std::span<Slot> claimed);
  ~ChannelState();

  const std::shared_ptr<CompletionCore> core;
  const std::span<Slot> run;  ///< Of the core's slab.
  const ChannelOptions options;
  ProtectionDomain domain;
  std::atomic<bool> interrupted{false};
  std::uint32_t max_receive_elements = 0;
  QpNumber queue_pair_number{};
  std::optional<PreparedQueuePair> prepared{};
  std::optional<QueuePair> queue_pair{};  ///< From connect() on.
  std::unique_ptr<Orphan[]> orphans{};
  std::unique_ptr<ibv_send_wr[]> requests{};
  std::optional<Buffer> atomic_result{};
  std::shared_ptr<Interrupt> interrupt;
  Link link{};  ///< Where Listener or dial() met the peer: tells of its end.
  std::optional<std::stop_callback<std::function<void()>>> stop{};
  ScopeLedger ledger{};
  Watched watched{};
  Ending ending{};
  std::optional<Error> cause{};  ///< Why posts are refused.
  std::uint64_t dropped_messages = 0;

  [[nodiscard]] Orphan& orphan(const Slot& slot) const noexcept {
    return orphans[static_cast<std::size_t>(&slot - run.data())];
  }
  [[nodiscard]] bool busy(const OperationQueue& queue) const noexcept;

  // Filing.
  /// A completion of one of its slots.
  void take_in(Slot& slot, const ibv_wc& wc) noexcept;
  /// Lets fd() know what poll() has not seen.
  void raise() noexcept;

  // Posting.
  Ticket park_refusal(const Error& error, Post how) noexcept;
  Ticket batch_refused(Slot& last, int os_error, const ibv_send_wr* rejected, Post how) noexcept;

  // Waiting.
  /// Takes completions until `done()` says so. False: the time is over, or the queue broke while
  /// the channel was ending. What happens meanwhile may end the channel: then nothing is in flight.
  template <class Done>
  [[nodiscard]] bool wait_until(Done done, Patience& patience) noexcept;
  bool await_for(Slot& slot, std::uint64_t id, Patience& patience, Memory memory) noexcept;
  bool arrived_batch(Slot& last) noexcept;
  /// Ends the channel if somebody asked for it or an event says that it is broken.
  bool heed_interrupts() noexcept;
  /// Ends the channel if the peer has. Asks the system once in kLinkInterval.
  bool heed_link(std::chrono::steady_clock::time_point now) noexcept;
  /// Whether the peer's end was seen, and what it sent before may still be coming.
  [[nodiscard]] bool is_peer_going() const noexcept {
    return !cause && link.state() != LinkState::none &&
           gone_since_ != std::chrono::steady_clock::time_point{};
  }
  void take(Slot& slot) noexcept;

  // The end: see channel_end.cpp.
  /// No more work from now on: ERR, and a marker in each queue. Does not wait.
  void begin_end(const Error& reason) noexcept;
  /// Goes on when completions came, or when the time of the flush is over. True: it has ended.
  bool step_end(std::chrono::steady_clock::time_point now) noexcept;
  /// When step_end() has to be called at the latest.
  [[nodiscard]] std::chrono::steady_clock::time_point end_deadline() const noexcept {
    return flush_end_;
  }
  /// All of it: afterwards no operation is in flight, or `proven` is false.
  void expire(const Error& reason) noexcept;
  /// Until nothing of ours is on its way to the peer. False: the time is over.
  [[nodiscard]] bool finish_sends(Patience& patience) noexcept;
  /// The owner is gone; frees itself when the last parked result has been taken.
  void abandon() noexcept;

  [[nodiscard]] bool in_child() const noexcept { return is_forked(cq->context); }

 private:
  /// The child has the parent's memory and none of its work: everything is over, and is `forked`.
  void forked() noexcept override;
  /// One turn of a wait, after done() said no.
  enum class Turn : std::uint8_t { again, over };
  Turn turn(Patience& patience) noexcept;
  void settle(Slot& slot) noexcept;
  void count_dropped_message() noexcept;
  [[nodiscard]] Error named(const Error& failure) noexcept;
  [[nodiscard]] bool borrows() const noexcept;
  bool post_markers() noexcept;
  [[nodiscard]] bool are_markers_back() const noexcept;
  bool stop_by_force() noexcept;
  void conclude(bool stopped) noexcept;
  void end_queue(OperationQueue& queue) noexcept;

  std::chrono::steady_clock::time_point flush_end_{};
  std::chrono::steady_clock::time_point next_look_{};   ///< At the link.
  std::chrono::steady_clock::time_point gone_since_{};  ///< When it first told of the peer's end.
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

/// The slots of a queue, without the marker's.
[[nodiscard]] inline std::span<Slot> slots_of(const OperationQueue& queue) noexcept {
  return {queue.first, queue.count};
}
/// Posts until `would_block`. Counted: nobody needs it on the straight path.
[[nodiscard]] inline std::uint32_t credit(const OperationQueue& queue) noexcept {
  std::uint32_t slots = 0;
  for (const Slot* slot = queue.free; slot != nullptr; slot = slot->next) ++slots;
  return slots;
}
/// Of a batch, from the first to the last.
template <class Action>
void for_batch(Slot& last, Action action) noexcept {
  for (Slot* slot = last.next;; slot = slot->next) {
    action(*slot);
    if (slot == &last) break;
  }
}
/// Over without a word about how much was written.
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
