// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One completion queue, its slab, and the one place where completions are filed.
///
/// A channel has its own, or several channels share one. Any of them that polls files completions
/// for all: a slot knows its queue, and the queue its channel. A Reactor drives a core with turn(),
/// which wakes waiters immediately. What others have filed meanwhile is linked in `wakeups`, and
/// channels that must be stepped in `troubled`.
///
/// Ownership: shared by its channels. Lives as long as one of them, or a result that was not taken.
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

/// The driver of a core's channels, as they see it.
struct Driver {
  /// Watches the descriptor for `events` (of poll) from now on; for none if there are none.
  void (*watch)(Driver& self, EventSource& source, int fd, short before, short events) noexcept;
  bool is_inside = false;  ///< If false, it must be woken for news.
};

class CompletionCore {
 public:
  /// `depth`: completions that may be present at once. `slots`: operations of all channels
  /// together.
  [[nodiscard]] static Result<std::shared_ptr<CompletionCore>> create(
      const Context& context, std::uint32_t depth, std::uint32_t slots,
      CompletionQueueGrowth growth = CompletionQueueGrowth::fixed);
  CompletionCore(Context on, CompletionChannel channel, CompletionQueue queue, Slab slab) noexcept;
  CompletionCore(const CompletionCore&) = delete;
  CompletionCore& operator=(const CompletionCore&) = delete;
  ~CompletionCore();

  /// Polls one batch into the slots. Returns the count; negative: the queue is broken. What turn()
  /// has polled but not delivered comes first.
  int drain() noexcept;
  /// Like drain(), but resumes waiters at once, from here.
  int turn() noexcept;
  void file(const ibv_wc* polled, int count) noexcept;
  /// Takes all completions, and with them the places that destroyed queue pairs left: only a poll
  /// that finds nothing frees those.
  [[nodiscard]] Result<void> sweep() noexcept;
  /// Before a thread sleeps: the next completion raises an event.
  [[nodiscard]] Result<void> arm() noexcept;
  /// Why drain() was negative.
  [[nodiscard]] Error broken() const noexcept;

  const Context context;
  CompletionChannel events;
  CompletionQueue completions;
  Slab slab;

  // For a driver of several channels.
  Driver* driver = nullptr;  ///< Null: each channel's own calls drive it.
  Wakeups wakeups{};
  SharedReceives* shared_receives = nullptr;  ///< Null: each channel has its own.
  std::shared_ptr<Waker> waker{};             ///< Ends its sleep; also that of its channels.
  ChannelState* troubled = nullptr;           ///< To be stepped: their work failed or was returned.
  ChannelState* channels = nullptr;
  std::size_t channel_count = 0;
  TimerHeap timers{};
  /// Calls it when the deadline is over; never if it has no end.
  void call_at(Timer& timer, Deadline deadline) {
    if (const Nanoseconds end = end_of(deadline); end < kLongest) timers.set(timer, end);
  }

 private:
  /// For turn(): any state other than the usual awaited ones.
  [[gnu::noinline]] void turn_to(const ibv_wc& wc) noexcept;

  // What turn() has polled but not delivered yet.
  const ibv_wc* next_polled_ = nullptr;
  int left_polled_ = 0;
  std::array<ibv_wc, kPollBatch> polled_{};
  ibv_cq* const cq_;
  Slot* const slots_;
  const std::uint64_t mask_;
};

}  // namespace verbatim::detail
