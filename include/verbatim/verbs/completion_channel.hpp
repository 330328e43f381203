// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Sleeping until a completion queue has something.
///
/// A completion queue created with a channel raises an event on it when armed. The channel takes
/// and acknowledges events in one step, so destroying a queue never waits for an acknowledgement.
///
/// Ownership: a cheap, shared handle; its queues keep it alive.
/// Threads:   one thread at a time may wait on a channel and on the queues of that channel.
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
  /// Readable when an event waits; for epoll. Non-blocking.
  [[nodiscard]] int fd() const noexcept;

  /// Sleeps until an armed queue of this channel raises an event. Takes all events, marks their
  /// queues (`CompletionQueue::take_signal`), and returns the number of events. `timed_out` if none
  /// came.
  [[nodiscard]] Result<std::size_t> wait(std::chrono::nanoseconds timeout) const;

 private:
  friend class Context;
  friend struct detail::CompletionQueueState;
  friend class CompletionQueue;
  explicit CompletionChannel(std::shared_ptr<detail::CompletionChannelState> state) noexcept;
  std::shared_ptr<detail::CompletionChannelState> state_;
};

}  // namespace verbatim
