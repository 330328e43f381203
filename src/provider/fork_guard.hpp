// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a forked child may do with its parent's device: nothing, at no cost to the parent.
///
/// The child shares the parent's device mappings, so a post from it would ring the parent's
/// doorbell. At fork, the library replaces the child's copies of the data verbs with ones that
/// fail; the data path needs no check. Control calls check `in_child()`.
#include <infiniband/verbs.h>

#include <atomic>

#include "base/fork_handlers.hpp"

namespace verbatim::detail {

/// Called in the child after a fork, before anything uses it there.
class ForkListener {
 public:
  ForkListener() = default;
  ForkListener(const ForkListener&) = delete;
  ForkListener& operator=(const ForkListener&) = delete;

 protected:
  ~ForkListener() = default;
  /// Another thread may fork at any time, so only whole objects listen: from the end of the final
  /// class's constructor to the beginning of its destructor.
  void listen();
  void stop_listening() noexcept;

 private:
  /// Runs in the child, inside fork(): other threads of the parent may hold any lock for ever.
  virtual void forked() noexcept = 0;
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
  static const ForkHandlers kHandlers;

  ForkListener* next_ = nullptr;
  ForkListener* previous_ = nullptr;
};

class ForkGuard final : ForkListener {
 public:
  explicit ForkGuard(ibv_context* context) : context_(context) { listen(); }
  ~ForkGuard() { stop_listening(); }

  [[nodiscard]] bool in_child() const noexcept { return in_child_.load(); }

 private:
  void forked() noexcept override;

  ibv_context* context_;
  std::atomic<bool> in_child_{false};
};

/// Whether the data verbs of this context were replaced because the process is a forked child.
[[nodiscard]] bool is_forked(const ibv_context* context) noexcept;

}  // namespace verbatim::detail
