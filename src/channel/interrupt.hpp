// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How another thread interrupts a channel: a flag for one that works, a file descriptor for
/// one that sleeps.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace verbatim::detail {

/// Shared with who may interrupt: it outlives the channel.
struct Interrupt {
  Interrupt() noexcept : fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Interrupt() {
    if (fd >= 0) close(fd);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  void raise() noexcept {
    const std::lock_guard lock{mutex};
    if (flag == nullptr) return;  // The channel is gone.
    flag->store(true);
    const std::uint64_t one = 1;
    // A full counter has woken the sleeper already.
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) return;
  }
  void reset() noexcept {
    {
      const std::lock_guard lock{mutex};
      if (flag != nullptr) flag->store(false);  // First: what comes in between then counts.
    }
    std::uint64_t count = 0;
    if (fd >= 0 && read(fd, &count, sizeof count) < 0) count = 0;  // Nothing was there.
  }
  void detach() noexcept {
    const std::lock_guard lock{mutex};
    flag = nullptr;
  }

  std::mutex mutex;
  std::atomic<bool>* flag = nullptr;  ///< In the channel, where each post looks at it.
  int fd;  ///< -1 if the system has none left: a sleeper then looks after at most kNap.
};

}  // namespace verbatim::detail
