// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Blocks that other threads return to their home, and the end of a home whose blocks are
/// out.
///
/// Each home has one thread, which returns blocks directly. Other threads put theirs here, without
/// a lock, and that thread collects them. A home that closes lives until its last block is back.
#include <atomic>
#include <cstdint>

#include "verbatim/base/annotations.hpp"
#include "verbatim/verbs/buffer.hpp"

namespace verbatim::detail {

/// Identifies the calling thread.
VERBATIM_HOT std::uintptr_t this_thread() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
}

[[nodiscard]] inline std::uint32_t length_of(const BufferBlock* list) noexcept {
  std::uint32_t count = 0;
  for (; list != nullptr; list = list->next) ++count;
  return count;
}

class ReturnedBlocks {
 public:
  static constexpr std::uintptr_t kNone = 0;
  static constexpr std::uintptr_t kAwaited =
      1;                                        ///< Empty, and a thread sleeps until a block comes.
  static constexpr std::uintptr_t kClosed = 2;  ///< The home takes no more blocks.
  static constexpr std::uintptr_t kQueued =
      3;  ///< Empty: the home gives each block to the next waiter.

  enum class Put : std::uint8_t {
    kept,
    awaited,  ///< Kept; the caller must wake the sleeping thread.
    queued,   ///< Not kept: a waiter is in line for it.
    closed,   ///< The home has closed.
    last,     ///< Like closed, and it was the last one out: the caller frees the home.
  };
  /// Calls `prepare` before it keeps an awaited block. From then on the home may be gone, and the
  /// caller must not touch it.
  template <class Prepare>
  Put put(BufferBlock& block, Prepare prepare) noexcept {
    std::uintptr_t seen = word_.load(std::memory_order_acquire);
    do {
      if (seen == kClosed)
        return left_.fetch_sub(1, std::memory_order_acq_rel) == 1 ? Put::last : Put::closed;
      if (seen == kQueued) return Put::queued;
      if (seen == kAwaited) prepare();
      block.next = seen == kAwaited ? nullptr : reinterpret_cast<BufferBlock*>(seen);
    } while (!word_.compare_exchange_weak(seen, reinterpret_cast<std::uintptr_t>(&block),
                                          std::memory_order_acq_rel, std::memory_order_acquire));
    return seen == kAwaited ? Put::awaited : Put::kept;
  }

  // For the home's thread only.
  /// A list of all returned blocks; null if there are none.
  [[nodiscard]] BufferBlock* take() noexcept {
    std::uintptr_t seen = word_.load(std::memory_order_relaxed);
    if (seen == kNone || seen == kQueued) return nullptr;
    seen = word_.exchange(kNone, std::memory_order_acquire);
    return seen == kAwaited ? nullptr : reinterpret_cast<BufferBlock*>(seen);
  }
  /// Announces that this thread will sleep for the next block. False: there is one already.
  [[nodiscard]] bool await() noexcept {
    std::uintptr_t none = kNone;
    return word_.compare_exchange_strong(none, kAwaited, std::memory_order_acq_rel) ||
           none == kAwaited;
  }
  /// From now on each block goes to the next waiter. False: there is one already.
  [[nodiscard]] bool begin_queue() noexcept {
    std::uintptr_t none = kNone;
    return word_.compare_exchange_strong(none, kQueued, std::memory_order_acq_rel) ||
           none == kQueued;
  }
  void end_queue() noexcept {
    std::uintptr_t queued = kQueued;
    word_.compare_exchange_strong(queued, kNone, std::memory_order_acq_rel);
  }
  [[nodiscard]] bool is_queued() const noexcept {
    return word_.load(std::memory_order_relaxed) == kQueued;
  }
  /// A list of the blocks that are here. No more are kept from now on.
  [[nodiscard]] BufferBlock* close() noexcept {
    const std::uintptr_t seen = word_.exchange(kClosed, std::memory_order_acq_rel);
    return seen == kAwaited || seen == kQueued ? nullptr : reinterpret_cast<BufferBlock*>(seen);
  }
  /// After close(): `out` blocks are still out. True: none is left, and the caller frees the home.
  [[nodiscard]] bool expect(std::int64_t out) noexcept {
    return left_.fetch_add(out, std::memory_order_acq_rel) == -out;
  }
  /// For a futex.
  [[nodiscard]] std::atomic<std::uintptr_t>& word() noexcept { return word_; }

 private:
  std::atomic<std::uintptr_t> word_{kNone};  ///< A list, or one of the words above.
  std::atomic<std::int64_t> left_{0};        ///< Still out after the end.
};

}  // namespace verbatim::detail
