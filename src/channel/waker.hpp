// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Ends the sleep of a thread that waits on a channel, or of a Reactor.
///
/// Threads: any thread may wake; the sleeping one clears.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "verbatim/channel/detail/file_descriptor.hpp"

namespace verbatim::detail {

struct Waker {
  /// -1 if the system has none left: a sleeper then looks after at most Patience::kNap.
  const FileDescriptor file{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  /// One of the channels of a Reactor was interrupted; set before the wake-up.
  std::atomic<bool> interrupted{false};

  [[nodiscard]] int fd() const noexcept { return file.get(); }
  void wake() const noexcept {
    const std::uint64_t one = 1;
    // A full counter is readable already.
    if (fd() >= 0 && ::write(fd(), &one, sizeof one) < 0) return;
  }
  void clear() const noexcept {
    std::uint64_t count = 0;
    if (fd() >= 0 && ::read(fd(), &count, sizeof count) < 0) return;  // Nothing was there.
  }
};

}  // namespace verbatim::detail
