// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A lock that costs its only user no atomic operation.
///
/// Usually only one thread posts to a queue pair. The lock belongs to the first thread that takes
/// it with lock_and_own(): that thread enters with a plain store, without a fence. When another
/// thread comes, it takes the lock away from the owner permanently, and pays for the fence on both
/// sides (membarrier, a few microseconds, once). From then on it is an ordinary spin lock. An
/// 8-byte write takes 61 ns with it and 68 ns with a SpinLock.
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
  /// Like lock(). If the lock never had an owner, the calling thread becomes it.
  void lock_and_own() noexcept;
  void unlock() noexcept {
    if (by_owner_)
      unlock_as_owner();
    else
      shared_.unlock();
  }

  /// The owner's way, without an atomic operation. False: this thread is not the owner, or not any
  /// more.
  [[nodiscard, gnu::always_inline]] bool try_lock_as_owner() noexcept {
    void* const self = __builtin_thread_pointer();
    if (owner_.load(std::memory_order_relaxed) != self) [[unlikely]]
      return false;
    inside_.store(true, std::memory_order_relaxed);
    // A thread that takes the lock away orders this store against the next load: take_away().
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_acquire) == self) [[likely]]
      return true;
    inside_.store(false, std::memory_order_relaxed);
    return false;
  }
  /// After try_lock_as_owner(), in the same function; otherwise unlock(), after keep().
  [[gnu::always_inline]] void unlock_as_owner() noexcept {
    inside_.store(false, std::memory_order_release);
  }
  /// Makes unlock() release what try_lock_as_owner() took.
  void keep() noexcept { by_owner_ = true; }

  /// After this, a thread that is not inside (is_held()) finds all that this thread has written
  /// before, when it comes in. It serves all locks of the process.
  static void order_threads() noexcept;
  /// Whether a thread is inside. Takes the lock away from nobody.
  [[nodiscard]] bool is_held() const noexcept {
    return inside_.load(std::memory_order_acquire) || shared_.is_held();
  }
  /// Whether this thread is inside, as the owner.
  [[nodiscard]] bool is_held_here() const noexcept {
    return owner_.load(std::memory_order_relaxed) == __builtin_thread_pointer() &&
           inside_.load(std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] bool is_left(bool wait) const noexcept;
  void take_away() noexcept;

  /// In place of a thread: never anyone again.
  static void* nobody() noexcept { return reinterpret_cast<void*>(std::uintptr_t{1}); }

  std::atomic<void*> owner_{nullptr};  // A thread; nullptr: none yet. Changed under `shared_`.
  std::atomic<bool> inside_{false};    // The owner is.
  bool by_owner_ = false;              // How it is held now: only for the holder.
  SpinLock shared_;                    // For all threads but the owner.
};

}  // namespace verbatim::engine
