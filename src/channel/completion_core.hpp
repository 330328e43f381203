// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One completion queue, its slab, and the one place where completions are filed.
///
/// A channel has one of its own; several may share one. Whoever polls files for everybody: a slot
/// knows its queue, and the queue its channel. A Reactor drives one with turn(), which wakes who
/// waits on the spot; what others have filed meanwhile is linked in `wakeups`, and channels that
/// have to be stepped in `troubled`.
///
/// Ownership: shared by its channels, and lives as long as one of them, or a result of one that
///            nobody has taken.
/// Threads:   one at a time, the same for all of its channels.
#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>

#include "channel/clock.hpp"
#include "channel/slab.hpp"
#include "channel/timer_heap.hpp"
#include "channel/waker.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/channel/detail/event_source.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim/channel/detail/waiters.hpp"
#include "verbatim/verbs/completion_channel.hpp"
#include "verbatim/verbs/completion_queue.hpp"
#include "verbatim/verbs/context.hpp"

namespace verbatim::detail {

struct SharedReceives;

/// Who drives the channels of a core, as they see it.
struct Driver {
  /// Waits for `events` (of poll) at the descriptor from now on; for none if there is none.
  void (*watch)(Driver& self, EventSource& source, int fd, short before, short events) noexcept;
  bool is_inside = false;  ///< Else it has to be woken for what is new.
};

class CompletionCore {
 public:
  /// `depth`: completions that may be there at once. `slots`: operations of all channels together.
  [[nodiscard]] static Result<std::shared_ptr<CompletionCore>> create(
      const Context& context, std::uint32_t depth, std::uint32_t slots,
      CompletionQueueGrowth growth = CompletionQueueGrowth::fixed);
  CompletionCore(Context on, CompletionChannel channel, CompletionQueue queue, Slab slab) noexcept;
  CompletionCore(const CompletionCore&) = delete;
  CompletionCore& operator=(const CompletionCore&) = delete;
  ~CompletionCore();

  /// Polls one batch into the slots; how many there were, or negative: the queue is broken. What
  /// turn() has polled and not told comes first.
  int drain() noexcept;
  /// As drain(), but who waits for what came goes on at once, from here.
  int turn() noexcept;
  void file(const ibv_wc* polled, int count) noexcept;
  /// Takes all that is there, and with it the places that queue pairs have left when they were
  /// destroyed: only a look that finds nothing gives those free.
  [[nodiscard]] Result<void> sweep() noexcept;
  /// Before anybody sleeps: the next completion raises an event.
  [[nodiscard]] Result<void> arm() noexcept;
  /// Why drain() was negative.
  [[nodiscard]] Error broken() const noexcept;

  const Context context;
  CompletionChannel events;
  CompletionQueue completions;
  Slab slab;

  // Of who drives many channels.
  Driver* driver = nullptr;  ///< Null: each channel is driven by its own calls.
  Wakeups wakeups{};
  SharedReceives* shared_receives = nullptr;  ///< Null: each channel has its own.
  std::shared_ptr<Waker> waker{};             ///< Ends its sleep; of its channels, too.
  ChannelState* troubled = nullptr;  ///< To be stepped: work of theirs failed or was given back.
  ChannelState* channels = nullptr;
  std::size_t channel_count = 0;
  TimerHeap timers{};
  /// When the deadline is over; never, if it has no end.
  void call_at(Timer& timer, Deadline deadline) {
    if (const Nanoseconds end = end_of(deadline); end < kLongest) timers.set(timer, end);
  }

 private:
  /// Of turn(): any other than what is mostly awaited.
  [[gnu::noinline]] void turn_to(const ibv_wc& wc) noexcept;

  // What turn() has polled and not told yet.
  const ibv_wc* next_polled_ = nullptr;
  int left_polled_ = 0;
  std::array<ibv_wc, kPollBatch> polled_{};
  ibv_cq* const cq_;
  Slot* const slots_;
  const std::uint64_t mask_;
};

}  // namespace verbatim::detail
