// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a forked child may do with its parent's device: nothing, at no cost to the parent.
///
/// The child shares the parent's device mappings, so a post from it would ring the parent's
/// doorbell. At fork, the child's copies of the data verbs are replaced by ones that fail; the
/// data path needs no check. Control calls ask `in_child()`.
#include <infiniband/verbs.h>

#include <atomic>

namespace verbatim::detail {

class ForkGuard {
 public:
  explicit ForkGuard(ibv_context* context);
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  [[nodiscard]] bool in_child() const noexcept { return in_child_.load(); }

 private:
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  ibv_context* context_;
  std::atomic<bool> in_child_{false};
  ForkGuard* next_ = nullptr;
  ForkGuard* previous_ = nullptr;
};

/// Whether the data verbs of this context were replaced because the process is a forked child.
[[nodiscard]] bool is_forked(const ibv_context* context) noexcept;

}  // namespace verbatim::detail
