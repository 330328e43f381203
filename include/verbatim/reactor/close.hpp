// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a coroutine closes a channel: like Channel::close(), but others run meanwhile.
///
///     const auto closed = co_await close(channel, 1s);
///
/// It tells the peer that it is done, and waits until the peer is. If it is destroyed while it
/// waits, the channel continues to close.
#include <coroutine>

#include "verbatim/channel/channel.hpp"
#include "verbatim/channel/detail/waiters.hpp"

namespace verbatim {

namespace detail {

struct ChannelAccess {
  static ChannelCore& core(const Channel& channel, std::source_location where) {
    return channel.usable(where);
  }
  /// For a post, which need not check: see Channel::usable().
  static ChannelCore& unasked(const Channel& channel) noexcept { return *channel.state_; }
};

/// Waits until the device has returned everything.
class [[nodiscard("co_await it")]] OverAwaiter {
 public:
  explicit OverAwaiter(ChannelCore& channel) noexcept : channel_(channel) {}
  OverAwaiter(const OverAwaiter&) = delete;
  OverAwaiter& operator=(const OverAwaiter&) = delete;
  ~OverAwaiter() {
    if (is_waiting_) wake_when_over(channel_, 0);
  }
  [[nodiscard]] bool await_ready() const noexcept { return is_over(channel_); }
  void await_suspend(std::coroutine_handle<> waiting) noexcept {
    wake_when_over(channel_, as_waiter(waiting));
    is_waiting_ = true;
  }
  void await_resume() noexcept { is_waiting_ = false; }

 private:
  ChannelCore& channel_;
  bool is_waiting_ = false;
};

class [[nodiscard("co_await it")]] CloseAwaiter {
 public:
  CloseAwaiter(Channel& channel, Deadline deadline, std::source_location where)
      : channel_(channel), over_(ChannelAccess::core(channel, where)), deadline_(deadline) {}
  [[nodiscard]] bool await_ready() const noexcept {
    channel_.start_close(deadline_);
    return over_.await_ready();
  }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { over_.await_suspend(waiting); }
  [[nodiscard]] Result<void> await_resume() noexcept {
    over_.await_resume();
    return channel_.close();  // It is over: this returns the outcome.
  }

 private:
  Channel& channel_;
  OverAwaiter over_;
  Deadline deadline_;
};

}  // namespace detail

/// The channel must not move until then.
[[nodiscard]] inline detail::CloseAwaiter close(
    Channel& channel, Deadline deadline = {},
    std::source_location where = std::source_location::current()) {
  return {channel, deadline, where};
}

}  // namespace verbatim
