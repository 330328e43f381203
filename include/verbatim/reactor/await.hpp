// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a coroutine waits for an operation: `co_await channel.send(std::move(buffer))`.
///
///     auto [buffer, result] = co_await channel.receive(std::move(buffer));
///     auto [buffer, result] = co_await wait_until(channel.receive(std::move(buffer)), 50ms);
///     const std::size_t first = co_await when_any(receiving, sending);  // the other goes on
///
/// This is the same Pending: wait() blocks, co_await lets others run. A coroutine that is destroyed
/// while it waits drops its Pending: the slot keeps the buffer until the device is done with it.
///
/// Without a deadline, a send may take the channel's `timeout`, and a receive may take for ever,
/// because a server waits for its clients. When a deadline passes, the channel ends, as with a
/// blocking wait, and each waiter on it gets its buffer and the reason.
///
/// Only on a channel of a Reactor, in the Reactor's thread.
#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/waiters.hpp"
#include "verbatim/channel/pending.hpp"

namespace verbatim {

namespace detail {

/// By the clock. For the default deadline: as the queue says.
[[nodiscard]] std::uint64_t end_of_wait(const ChannelCore& channel, const Slot& slot,
                                        Deadline deadline) noexcept;
/// Like Channel::cancel().
void cancel(ChannelCore& channel) noexcept;

/// The part of a Pending that coroutines and waiters use.
struct PendingAccess {
  template <class Owner>
  static ChannelCore& channel(Pending<Owner>& pending) noexcept {
    return *pending.channel_;
  }
  template <class Owner>
  static Slot& slot(Pending<Owner>& pending) noexcept {
    return *pending.slot_;
  }
  /// Whether there is something to wait for. A failure is reported when its channel is over.
  template <class Owner>
  [[nodiscard]] VERBATIM_HOT static bool is_to_come(const Pending<Owner>& pending) noexcept {
    const Slot& slot = *pending.slot_;
    return slot.state == SlotState::flying ||
           (slot.state == SlotState::done && !slot.completion.ok());
  }
  /// The result of an operation that is over and succeeded; otherwise that of wait(), at once.
  template <class Owner>
  VERBATIM_HOT static Completed<Owner> take(Pending<Owner>& pending) noexcept {
    return pending.take_over();
  }
  /// Wakes nobody any more.
  template <class Owner>
  static void withdraw(Pending<Owner>& pending) noexcept {
    detail::withdraw(*pending.slot_, pending.id_);
  }
};

/// Lives in the coroutine's frame during the co_await, beside the Pending.
template <class Owner>
class [[nodiscard("co_await it")]] PendingAwaiter {
 public:
  explicit PendingAwaiter(Pending<Owner>& pending) noexcept : pending_(pending) {}
  PendingAwaiter(const PendingAwaiter&) = delete;
  PendingAwaiter& operator=(const PendingAwaiter&) = delete;

  [[nodiscard]] VERBATIM_HOT bool await_ready() const noexcept {
    return !PendingAccess::is_to_come(pending_);
  }
  VERBATIM_HOT void await_suspend(std::coroutine_handle<> waiting) noexcept {
    wake_at_end(PendingAccess::channel(pending_), PendingAccess::slot(pending_),
                as_waiter(waiting));
  }
  VERBATIM_HOT Completed<Owner> await_resume() noexcept { return PendingAccess::take(pending_); }

 protected:
  Pending<Owner>& pending_;  // NOLINT(readability-identifier-naming): as good as private
};

template <class Owner>
class [[nodiscard("co_await it")]] DeadlineAwaiter final : public PendingAwaiter<Owner> {
 public:
  DeadlineAwaiter(Pending<Owner>& pending, Deadline deadline) noexcept
      : PendingAwaiter<Owner>(pending), deadline_(deadline) {}
  void await_suspend(std::coroutine_handle<> waiting) noexcept {
    ChannelCore& channel = PendingAccess::channel(this->pending_);
    Slot& slot = PendingAccess::slot(this->pending_);
    wake_at_end(channel, slot, as_waiter(waiting), end_of_wait(channel, slot, deadline_));
  }

 private:
  Deadline deadline_;
};

template <class... Owners>
class [[nodiscard("co_await it")]] AnyAwaiter {
 public:
  explicit AnyAwaiter(Pending<Owners>&... pending) noexcept : pending_(pending...) {}
  AnyAwaiter(const AnyAwaiter&) = delete;
  AnyAwaiter& operator=(const AnyAwaiter&) = delete;
  ~AnyAwaiter() {
    if (waiting_) withdraw();
  }

  [[nodiscard]] bool await_ready() noexcept {
    std::size_t index = 0;
    return std::apply(
        [&](auto&... each) {
          return ((PendingAccess::is_to_come(each) ? (++index, false) : (first_ = index, true)) ||
                  ...);
        },
        pending_);
  }
  void await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    std::size_t index = 0;
    const auto enrol = [&](auto& each) {
      Entry& entry = entries_[index++];
      entry.any = this;
      entry.wake = [](Waiter& self, Slot&) noexcept { static_cast<Entry&>(self).over(); };
      wake_at_end(PendingAccess::channel(each), PendingAccess::slot(each), as_waiter(entry));
    };
    std::apply([&](auto&... each) { (enrol(each), ...); }, pending_);
  }
  [[nodiscard]] std::size_t await_resume() const noexcept { return first_; }

 private:
  struct Entry : Waiter {
    Entry() noexcept : Waiter{nullptr} {}
    void over() noexcept {
      AnyAwaiter& all = *any;
      all.first_ = static_cast<std::size_t>(this - all.entries_.data());
      all.withdraw();
      std::exchange(all.waiting_, nullptr).resume();
    }
    AnyAwaiter* any = nullptr;
  };
  void withdraw() noexcept {
    std::apply([](auto&... each) { (PendingAccess::withdraw(each), ...); }, pending_);
  }

  std::tuple<Pending<Owners>&...> pending_;
  std::array<Entry, sizeof...(Owners)> entries_{};
  std::size_t first_ = 0;
  std::coroutine_handle<> waiting_{};
};

}  // namespace detail

template <class Owner>
auto operator co_await(Pending<Owner>&& pending) noexcept {
  return detail::PendingAwaiter<Owner>{pending};
}

/// As `co_await pending`, with a deadline: `timed_out` ends the channel.
template <class Owner>
[[nodiscard]] auto wait_until(Pending<Owner>&& pending VERBATIM_LIFETIMEBOUND,
                              Deadline deadline) noexcept {
  return detail::DeadlineAwaiter<Owner>{pending, deadline};
}

/// Which of them is over first. The others continue: RDMA cannot cancel a single operation. Take
/// the results, including that of the first, with co_await or wait().
template <class... Owners>
[[nodiscard]] auto when_any(Pending<Owners>&... pending) noexcept {
  static_assert(sizeof...(Owners) > 0, "verbatim: when_any() of nothing would wait for ever");
  return detail::AnyAwaiter<Owners...>{pending...};
}

}  // namespace verbatim
