// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Who is woken when an operation is over, without polling for it: the straight path.
///
/// An awaited slot holds the address of a coroutine, or that of a Waiter with its lowest bit set.
/// The code that finds the completion either wakes at once (CompletionCore::turn) or, inside
/// another call that polled, links the slot into the list of those to wake.
#include <coroutine>
#include <cstdint>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/channel/detail/slots.hpp"

namespace verbatim::detail {

/// Anything but a coroutine: a tag for an event loop, a handler of another library.
struct Waiter {
  void (*wake)(Waiter& self, Slot& slot) noexcept;
};

[[nodiscard]] inline std::uintptr_t as_waiter(std::coroutine_handle<> coroutine) noexcept {
  return reinterpret_cast<std::uintptr_t>(coroutine.address());
}
[[nodiscard]] inline std::uintptr_t as_waiter(Waiter& waiter) noexcept {
  return reinterpret_cast<std::uintptr_t>(&waiter) | 1;
}

/// What a Reactor has to do besides polling. Without a reactor it is unused.
struct Wakeups {
  /// The clock as last read, in nanoseconds: never ahead.
  std::uint64_t now = 0;
  bool attention = false;  ///< There is something to do besides polling.
  Slot* first = nullptr;   ///< Slots to wake, oldest first.
  Slot* last = nullptr;

  /// `slot` is over: the next look wakes its waiter.
  void link(Slot& slot) noexcept {
    attention = true;
    slot.deadline = slot.id;
    if (slot.ready_next != nullptr) return;
    slot.ready_next = &no_slot;  // The end of the list.
    (first == nullptr ? first : last->ready_next) = &slot;
    last = &slot;
  }
  /// The next slot that still has a waiter; null: none. A linked slot may have been taken or
  /// reused.
  [[nodiscard]] Slot* unlink() noexcept {
    while (first != nullptr) {
      Slot& slot = *first;
      Slot* const next = std::exchange(slot.ready_next, nullptr);
      first = next == &no_slot ? nullptr : next;
      if (slot.waiter != 0 && slot.deadline == slot.id) return &slot;
    }
    return nullptr;
  }
  /// Call it before the slot's memory is freed. Walks the list.
  void remove(Slot& slot) noexcept {
    if (slot.ready_next == nullptr) return;
    Slot* ahead = nullptr;
    for (Slot* each = first; each != &slot; each = each->ready_next) ahead = each;
    Slot* const next = std::exchange(slot.ready_next, nullptr);
    if (ahead != nullptr)
      ahead->ready_next = next;
    else
      first = next == &no_slot ? nullptr : next;
    if (last == &slot) last = ahead;
  }
};

/// The slot is no longer in flight, and its waiter does not know that yet.
VERBATIM_HOT void wake(Slot& slot) noexcept {
  const std::uintptr_t whom = std::exchange(slot.waiter, 0);
  if ((whom & 1) == 0) [[likely]]
    return std::coroutine_handle<>::from_address(reinterpret_cast<void*>(whom)).resume();
  Waiter& waiter = *reinterpret_cast<Waiter*>(whom - 1);
  waiter.wake(waiter, slot);
}

/// Its next look at the deadlines is too late, or it has no Reactor.
VERBATIM_COLD void look_earlier(ChannelCore& channel, Slot& slot) noexcept;

VERBATIM_HOT void wake_at_end(ChannelCore& channel, Slot& slot, std::uintptr_t waiter,
                              std::uint64_t deadline) noexcept {
  slot.waiter = waiter;
  if (slot.state == SlotState::done) [[unlikely]] {
    slot.deadline = slot.id;  // It failed: ending the channel wakes it.
    return;
  }
  slot.state = SlotState::awaited;
  slot.deadline = deadline;
  if (deadline < channel.next_look) [[unlikely]]
    look_earlier(channel, slot);
}
/// With the queue's own deadline. Does not read the clock: the patience allows for a slightly old
/// time.
VERBATIM_HOT void wake_at_end(ChannelCore& channel, Slot& slot, std::uintptr_t waiter) noexcept {
  wake_at_end(channel, slot, waiter, channel.wakeups->now + slot.queue->patience);
}

// For scopes and ends, which are not counted in instructions.
/// Whether there is something to wait for: an operation in flight, or a failure that is reported
/// when its channel is over.
[[nodiscard]] bool is_to_come(ChannelCore& channel, const Slot& slot, std::uint64_t id) noexcept;
void wake_at_end_of(ChannelCore& channel, Slot& slot, std::uintptr_t waiter,
                    Deadline deadline) noexcept;
/// Wakes nobody any more.
void withdraw(Slot& slot, std::uint64_t id) noexcept;
/// A failure, a cancel or a close is ending the channel, or has ended it.
[[nodiscard]] bool is_ending(ChannelCore& channel) noexcept;
[[nodiscard]] bool is_over(ChannelCore& channel) noexcept;
/// 0: nobody.
void wake_when_over(ChannelCore& channel, std::uintptr_t waiter) noexcept;

}  // namespace verbatim::detail
