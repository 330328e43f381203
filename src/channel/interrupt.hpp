// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How another thread interrupts a channel: posts no longer fit if it is working; a file
/// descriptor wakes it if it sleeps.
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "channel/channel_state.hpp"
#include "channel/waker.hpp"

namespace verbatim::detail {

/// Shared with those who may interrupt: it outlives the channel.
struct Interrupt {
  /// `shared`: wakes the driver of several channels; null: the channel has its own.
  explicit Interrupt(std::shared_ptr<Waker> shared)
      : is_shared(shared != nullptr),
        waker(shared ? std::move(shared) : std::make_shared<Waker>()) {}
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static constexpr Error kCancelled{.code = Errc::cancelled, .operation = "cancel"};

  void raise(const Error& why = kCancelled) noexcept {
    const std::lock_guard lock{mutex};
    if (channel == nullptr || channel->in_child()) return;  // It is gone, or belongs to the parent.
    if (!channel->interrupted.load()) reason = why;
    channel->interrupted.store(true);
    channel->end_of_message.store(0);
    channel->end_of_elements.store(0);
    waker->interrupted.store(true);
    waker->wake();
  }
  /// Nobody will raise this if the peer does not answer: then it ends with that cause.
  void await_no_answer(const Error& cause) noexcept {
    const std::lock_guard lock{mutex};
    if_unanswered = cause;
    if (!is_shared) return;  // Who waits for news on its own channel looks every Patience::kNap.
    waker->interrupted.store(true);
    waker->wake();
  }
  void reset() noexcept {
    {
      const std::lock_guard lock{mutex};
      if_unanswered.reset();
      if (channel != nullptr)
        channel->interrupted.store(false);  // First: a later interrupt counts.
    }
    if (!is_shared) waker->clear();  // A shared one may have been woken for others, too.
  }
  /// Sets the limits for posts to those of the queue pair, unless an interrupt was faster.
  void admit() noexcept {
    const std::lock_guard lock{mutex};
    if (channel == nullptr || channel->interrupted.load()) return;
    if (channel->queue_pair) channel->end_of_message.store(channel->limits.end_of_message);
    channel->end_of_elements.store(channel->max_receive_elements + 1);
  }
  /// The cause of an interrupt that was raised.
  [[nodiscard]] Error told() noexcept {
    const std::lock_guard lock{mutex};
    return reason;
  }
  /// What no answer means, if that is known.
  [[nodiscard]] std::optional<Error> cause_of_silence() noexcept {
    const std::lock_guard lock{mutex};
    return if_unanswered;
  }
  void detach() noexcept {
    const std::lock_guard lock{mutex};
    channel = nullptr;
  }

  std::mutex mutex;
  ChannelState* channel = nullptr;
  Error reason{};
  std::optional<Error> if_unanswered{};
  const bool is_shared;
  const std::shared_ptr<Waker> waker;
};

}  // namespace verbatim::detail
