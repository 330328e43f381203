// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A lock that costs its one user no atomic operation.
///
/// Most queue pairs are posted to by one thread. The lock belongs to the first thread that takes it
/// with lock_and_own(): that one enters by a plain store, without a fence. Another thread that
/// comes takes the lock away from it for good, and pays for the fence on both sides (membarrier, a
/// few microseconds, once); from then on it is an ordinary spin lock. An 8-byte write takes 61 ns
/// with it and 68 ns with a SpinLock.
///
/// Owns nothing. Any thread of one process. It has the rank of the Ranked around it. Hot.
#include <atomic>
#include <cstdint>

#include "soft/shared/spin.hpp"
#include "verbatim/base/sanitizers.hpp"

namespace verbatim::engine {

class BiasedLock {
 public:
  void lock() noexcept;
  [[nodiscard]] bool try_lock() noexcept;
  /// As lock(). The thread owns the lock from now on, if nobody ever has.
  void lock_and_own() noexcept;
  void unlock() noexcept {
    if (by_owner_)
      unlock_as_owner();
    else
      shared_.unlock();
  }

  /// The owner's way, without an atomic operation. False: we are not, or not any more.
  [[nodiscard, gnu::always_inline]] bool try_lock_as_owner() noexcept {
    void* const self = __builtin_thread_pointer();
    if (owner_.load(std::memory_order_relaxed) != self) [[unlikely]]
      return false;
    inside_.store(true, std::memory_order_relaxed);
    // Who takes the lock away orders this store against the next load: take_away().
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_acquire) == self) [[likely]]
      return true;
    inside_.store(false, std::memory_order_relaxed);
    return false;
  }
  /// After try_lock_as_owner(), by the same function; else unlock(), after keep().
  [[gnu::always_inline]] void unlock_as_owner() noexcept {
    inside_.store(false, std::memory_order_release);
  }
  /// What was taken by try_lock_as_owner() is given back by unlock().
  void keep() noexcept { by_owner_ = true; }

 private:
  [[nodiscard]] bool is_left(bool wait) const noexcept;
  void take_away() noexcept;

  /// Instead of a thread: of nobody ever again.
  static void* nobody() noexcept { return reinterpret_cast<void*>(std::uintptr_t{1}); }

  std::atomic<void*> owner_{nullptr};  // A thread; nullptr: nobody yet. Changed under `shared_`.
  std::atomic<bool> inside_{false};    // The owner is.
  bool by_owner_ = false;              // How it is held now: the holder's.
  SpinLock shared_;                    // Of all that are not the owner.
};

}  // namespace verbatim::engine
