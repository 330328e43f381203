// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Sleeping until a completion queue has something.
///
/// Completion queues made with a channel raise an event on it when armed. Events are taken from
/// the kernel and acknowledged in the same step, so that destroying a queue never waits for one.
///
/// Ownership: a cheap, shared handle; its queues keep it alive.
/// Threads:   waiting, on a channel and on all queues of that channel, from one thread at a time.
#include <chrono>
#include <cstddef>
#include <memory>

#include "verbatim/base/error.hpp"

namespace verbatim {

namespace detail {
struct CompletionChannelState;
struct CompletionQueueState;
}  // namespace detail

class CompletionChannel {
 public:
  /// Readable when an event waits: for epoll. Non-blocking.
  [[nodiscard]] int fd() const noexcept;

  /// Sleeps until an armed queue of this channel raised an event, takes all events, marks their
  /// queues (`CompletionQueue::take_signal`), and returns how many events there were. `timed_out`
  /// if none came.
  [[nodiscard]] Result<std::size_t> wait(std::chrono::nanoseconds timeout) const;

 private:
  friend class Context;
  friend struct detail::CompletionQueueState;
  friend class CompletionQueue;
  explicit CompletionChannel(std::shared_ptr<detail::CompletionChannelState> state) noexcept;
  std::shared_ptr<detail::CompletionChannelState> state_;
};

}  // namespace verbatim
