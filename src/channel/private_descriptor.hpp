// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A descriptor that no other process gets: exec() closes it, and forked children do.
///
/// If a child kept a connection open, the peer would not see its end; if it kept a listening
/// socket, it would hold the address. In a child `get()` is -1.
///
/// Threads: like an int; fork() may come at any time, from any thread.
#include <utility>

#include "base/fork_handlers.hpp"

namespace verbatim::detail {

class PrivateDescriptor {
 public:
  PrivateDescriptor() noexcept = default;
  /// Takes `fd`, which must already be close-on-exec; negative means none.
  explicit PrivateDescriptor(int fd) noexcept {
    const Lock lock;
    hold(fd);
  }
  /// Takes what `open` returns, without a moment in which a fork() could copy it. errno is that of
  /// `open`, which must not block.
  template <class Open>
  [[nodiscard]] static PrivateDescriptor opened_by(Open&& open) noexcept {
    PrivateDescriptor made;
    const Lock lock;
    made.hold(open());
    return made;
  }
  PrivateDescriptor(PrivateDescriptor&& other) noexcept {
    const Lock lock;
    hold(other.let_go());
  }
  PrivateDescriptor& operator=(PrivateDescriptor&& other) noexcept;
  ~PrivateDescriptor() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;
  /// Releases it: from now on forked children have it too.
  [[nodiscard]] int release() noexcept {
    const Lock lock;
    return let_go();
  }

 private:
  /// Held while the list changes, and while the process forks. Does not change errno.
  struct Lock {
    Lock() noexcept;
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
  };
  static void close_all_in_child() noexcept;
  static const ForkHandlers kHandlers;
  void hold(int fd) noexcept;
  [[nodiscard]] int let_go() noexcept;

  int fd_ = -1;
  PrivateDescriptor* next_ = nullptr;  ///< Only objects with a descriptor are in the list.
  PrivateDescriptor* previous_ = nullptr;
};

}  // namespace verbatim::detail
