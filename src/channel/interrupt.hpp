// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How another thread interrupts a channel: no post fits any more for one that works, a file
/// descriptor for one that sleeps.
#include <memory>
#include <mutex>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/waker.hpp"

namespace verbatim::detail {

/// Shared with who may interrupt: it outlives the channel.
struct Interrupt {
  /// `shared`: wakes who drives many channels; null: it has one of its own.
  explicit Interrupt(std::shared_ptr<Waker> shared)
      : is_shared(shared != nullptr),
        waker(shared ? std::move(shared) : std::make_shared<Waker>()) {}
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static constexpr Error kCancelled{.code = Errc::cancelled, .operation = "cancel"};

  void raise(const Error& why = kCancelled) noexcept {
    const std::lock_guard lock{mutex};
    if (channel == nullptr || channel->in_child()) return;  // It is gone, or the parent's.
    if (!channel->interrupted.load()) reason = why;
    channel->interrupted.store(true);
    channel->end_of_message.store(0);
    channel->end_of_elements.store(0);
    waker->interrupted.store(true);
    waker->wake();
  }
  void reset() noexcept {
    {
      const std::lock_guard lock{mutex};
      if (channel != nullptr) channel->interrupted.store(false);  // First: what comes then counts.
    }
    if (!is_shared) waker->clear();  // Else it may be of others, too.
  }
  /// Posts are held against what the queue pair takes, unless somebody was faster.
  void admit() noexcept {
    const std::lock_guard lock{mutex};
    if (channel == nullptr || channel->interrupted.load()) return;
    if (channel->queue_pair) channel->end_of_message.store(channel->limits.end_of_message);
    channel->end_of_elements.store(channel->max_receive_elements + 1);
  }
  /// Why, of one that was raised.
  [[nodiscard]] Error told() noexcept {
    const std::lock_guard lock{mutex};
    return reason;
  }
  void detach() noexcept {
    const std::lock_guard lock{mutex};
    channel = nullptr;
  }

  std::mutex mutex;
  ChannelState* channel = nullptr;
  Error reason{};
  const bool is_shared;
  const std::shared_ptr<Waker> waker;
};

}  // namespace verbatim::detail
