// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How another thread interrupts a channel: no post fits any more for one that works, a file
/// descriptor for one that sleeps.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "channel/channel_state.hpp"

namespace verbatim::detail {

/// Shared with who may interrupt: it outlives the channel.
struct Interrupt {
  /// `shared`: wakes who drives many channels; null: it has one of its own.
  explicit Interrupt(std::shared_ptr<FileDescriptor> shared)
      : file(shared ? std::move(shared)
                    : std::make_shared<FileDescriptor>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
        fd(file->get()) {}
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  void raise() noexcept {
    const std::lock_guard lock{mutex};
    if (channel == nullptr || channel->in_child()) return;  // It is gone, or the parent's.
    channel->interrupted.store(true);
    channel->end_of_message.store(0);
    channel->end_of_elements.store(0);
    const std::uint64_t one = 1;
    // A full counter has woken the sleeper already.
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) return;
  }
  void reset() noexcept {
    {
      const std::lock_guard lock{mutex};
      if (channel != nullptr) channel->interrupted.store(false);  // First: what comes then counts.
    }
    std::uint64_t count = 0;
    if (fd >= 0 && read(fd, &count, sizeof count) < 0) count = 0;  // Nothing was there.
  }
  /// Posts are held against what the queue pair takes, unless somebody was faster.
  void admit() noexcept {
    const std::lock_guard lock{mutex};
    if (channel == nullptr || channel->interrupted.load()) return;
    if (channel->queue_pair) channel->end_of_message.store(channel->limits.end_of_message);
    channel->end_of_elements.store(channel->max_receive_elements + 1);
  }
  void detach() noexcept {
    const std::lock_guard lock{mutex};
    channel = nullptr;
  }

  std::mutex mutex;
  ChannelState* channel = nullptr;
  const std::shared_ptr<FileDescriptor> file;
  const int fd;  ///< -1 if the system has none left: a sleeper then looks after at most kNap.
};

}  // namespace verbatim::detail
