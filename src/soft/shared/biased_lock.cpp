// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/shared/biased_lock.hpp"

#include "base/once.hpp"
#include "soft/shared/membarrier.hpp"

namespace verbatim::engine {
namespace {

/// Whether this process can impose a memory barrier on its threads. ThreadSanitizer does not
/// understand that, so there no thread becomes the owner.
bool can_order() noexcept {
  static constinit detail::Once<bool> can;
  return can(
      [] { return VERBATIM_TSAN == 0 && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); });
}

}  // namespace

/// Executes a full fence in all threads of this process.
void BiasedLock::order_threads() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // A forked child has to register again.
  membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

/// Ends the ownership of the lock. The former owner has either stored `inside_`, or will see that
/// it is no longer the owner. The caller holds `shared_`.
void BiasedLock::take_away() noexcept {
  void* const owner = owner_.load(std::memory_order_relaxed);
  if (owner == nobody() || owner == nullptr) return;
  owner_.store(nobody(), std::memory_order_relaxed);
  order_threads();
}

/// Whether the former owner is outside. The caller holds `shared_`.
bool BiasedLock::is_left(bool wait) const noexcept {
  Backoff backoff;
  while (inside_.load(std::memory_order_acquire)) {
    if (!wait) return false;
    backoff.wait();
  }
  return true;
}

void BiasedLock::lock() noexcept {
  if (try_lock_as_owner()) return keep();
  shared_.lock();
  take_away();
  static_cast<void>(is_left(true));
  by_owner_ = false;
}

bool BiasedLock::try_lock() noexcept {
  if (is_held_here()) return false;
  if (try_lock_as_owner()) {
    keep();
    return true;
  }
  if (!shared_.try_lock()) return false;
  take_away();
  if (is_left(false)) {
    by_owner_ = false;
    return true;
  }
  shared_.unlock();
  return false;
}

void BiasedLock::lock_and_own() noexcept {
  if (try_lock_as_owner()) return keep();
  shared_.lock();
  if (owner_.load(std::memory_order_relaxed) == nullptr && can_order())
    owner_.store(__builtin_thread_pointer(), std::memory_order_relaxed);
  else
    take_away();
  static_cast<void>(is_left(true));
  by_owner_ = false;
}

}  // namespace verbatim::engine
