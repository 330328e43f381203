// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file The next message of a channel, in a buffer of its Reactor's shared receives.
///
///     auto [buffer, result] = co_await channel.receive();
///     auto [buffer, result] = channel.receive().wait();                   // or blocking
///     auto [buffer, result] = co_await wait_until(channel.receive(), 1s);
///
/// All channels of a Reactor with `ReactorOptions::receives` receive into the same buffers. A
/// buffer that is dropped, by anyone and anywhere, is posted again; one that is sent on returns
/// when the send is over. Messages that arrive while nobody waits are kept, in order, for the next
/// receive(). When a channel ends, receive() first returns the messages that had arrived, then the
/// reason, with a null buffer.
///
/// A receive has no default deadline: it ends with a message, the peer's end, a cancel or a device
/// failure. If a deadline is given and passes, the result is `timed_out` and the channel lives on,
/// because the device holds no memory of the caller. The next receive() gets the message that comes
/// later.
///
/// On a device without shared receive queues each channel posts 16 of the buffers to its own queue
/// instead. `count` should then be 16 for each channel, plus some for messages being read.
///
/// Ownership: move-only; if dropped, it leaves its message to the next. It may outlive its channel.
/// Threads:   those of its channel.
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/slots.hpp"
#include "verbatim/channel/detail/timer.hpp"
#include "verbatim/channel/detail/waiters.hpp"
#include "verbatim/channel/pending.hpp"
#include "verbatim/verbs/buffer.hpp"

namespace verbatim {

/// The receives that all channels of a Reactor share.
struct SharedReceiveOptions {
  std::size_t bytes = 4096;    ///< The size of each buffer. A longer message breaks its channel.
  std::uint32_t count = 1024;  ///< Buffers. When all are out, peers wait until one is dropped.
  /// Messages of one channel that nobody has received. With one more, that channel ends with
  /// `limit_exceeded`, because it would take the receives of all others.
  std::uint32_t max_unread = 64;
  HugePages huge_pages = HugePages::off;
};

namespace detail {
struct Inbox;

/// A waiter for a message, in the list of its inbox; or the head of that list.
struct ReceiverLink {
  ReceiverLink* before = this;
  ReceiverLink* after = this;

  void enter(ReceiverLink& list) noexcept {
    before = std::exchange(list.before, this);
    after = &list;
    before->after = this;
  }
  void leave() noexcept {
    before->after = after;
    after->before = before;
    before = after = this;
  }
};

struct Receiver : ReceiverLink {
  explicit Receiver(ChannelCore& channel) noexcept;
  Receiver(Receiver&& other) noexcept;
  Receiver& operator=(Receiver&&) = delete;
  ~Receiver() {
    if (inbox != nullptr) drop();
  }

  /// Whether take() would return something. Claims a message that is present.
  [[nodiscard]] bool is_ready() noexcept;
  /// Wakes `whom` when there is something to take.
  void wake_with_news(std::uintptr_t whom) noexcept;
  [[nodiscard]] Completed<Buffer> take() noexcept;
  void drop() noexcept;
  /// Wakes nobody any more. A message that has come stays.
  void withdraw() noexcept;
  void call_at(Timer& timer, Deadline deadline) const;

  Inbox* inbox;               ///< Lives as long as anything refers to it. Null: there is none.
  Slot* message = nullptr;    ///< The claimed message.
  std::uintptr_t waiter = 0;  ///< 0: not in the list.
  void* tag = nullptr;
};

class [[nodiscard("co_await it")]] IncomingAwaiter {
 public:
  explicit IncomingAwaiter(Receiver& receiver) noexcept : receiver_(receiver) {}
  IncomingAwaiter(const IncomingAwaiter&) = delete;
  IncomingAwaiter& operator=(const IncomingAwaiter&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return receiver_.is_ready(); }
  void await_suspend(std::coroutine_handle<> waiting) const noexcept {
    receiver_.wake_with_news(as_waiter(waiting));
  }
  Completed<Buffer> await_resume() const noexcept { return receiver_.take(); }

 private:
  Receiver& receiver_;
};

class [[nodiscard("co_await it")]] IncomingDeadlineAwaiter final : Timer {
 public:
  IncomingDeadlineAwaiter(Receiver& receiver, Deadline deadline) noexcept;

  [[nodiscard]] bool await_ready() const noexcept { return receiver_.is_ready(); }
  void await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    receiver_.wake_with_news(as_waiter(waiting));
    receiver_.call_at(*this, deadline_);
  }
  Completed<Buffer> await_resume() const noexcept { return receiver_.take(); }

 private:
  Receiver& receiver_;
  Deadline deadline_;
  std::coroutine_handle<> waiting_{};
};

}  // namespace detail

class [[nodiscard("wait() or co_await brings the message")]] Incoming {
 public:
  Incoming(Incoming&&) noexcept = default;
  Incoming& operator=(Incoming&&) = delete;
  ~Incoming() = default;

  /// Whether wait() would return at once. Polls the completion queue once.
  [[nodiscard]] bool ready() noexcept;
  /// Blocks. Call it once.
  [[nodiscard]] Completed<Buffer> wait(Deadline deadline = kForever) noexcept;

  /// Lets others run. Only in the thread of the channel's Reactor.
  auto operator co_await() && noexcept { return detail::IncomingAwaiter{receiver_}; }
  friend auto wait_until(Incoming&& incoming VERBATIM_LIFETIMEBOUND, Deadline deadline) noexcept {
    return detail::IncomingDeadlineAwaiter{incoming.receiver_, deadline};
  }

 private:
  friend class Channel;
  friend class Reactor;
  explicit Incoming(detail::ChannelCore& channel) noexcept : receiver_(channel) {}
  detail::Receiver receiver_;
};

}  // namespace verbatim
