// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Blocks on their way home from other threads, and the end of a home whose blocks are out.
///
/// A home has one thread that its blocks go straight to. Other threads put theirs here, without a
/// lock, and that thread collects them. A home that closes lives until its last block is back.
#include <atomic>
#include <cstdint>

#include "verbatim/base/annotations.hpp"
#include "verbatim/verbs/buffer.hpp"

namespace verbatim::detail {

/// Tells threads apart.
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
  static constexpr std::uintptr_t kAwaited = 1;  ///< None, and somebody sleeps until one comes.
  static constexpr std::uintptr_t kClosed = 2;   ///< The home takes none any more.
  static constexpr std::uintptr_t kQueued = 3;   ///< None: the home gives each to the next in turn.

  enum class Put : std::uint8_t {
    kept,
    awaited,  ///< Kept, and who awaits it is to be woken.
    queued,   ///< Not kept: somebody waits for it in turn.
    closed,   ///< The home has closed.
    last,     ///< As closed, and it was the last one out: the caller frees the home.
  };
  /// `prepare` is called before an awaited block is kept: from then on the home may be gone, and
  /// nothing of it may be touched.
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

  // Of the home's thread.
  /// A list of all that came; null: none.
  [[nodiscard]] BufferBlock* take() noexcept {
    std::uintptr_t seen = word_.load(std::memory_order_relaxed);
    if (seen == kNone || seen == kQueued) return nullptr;
    seen = word_.exchange(kNone, std::memory_order_acquire);
    return seen == kAwaited ? nullptr : reinterpret_cast<BufferBlock*>(seen);
  }
  /// The next one is awaited. False: one is there already.
  [[nodiscard]] bool await() noexcept {
    std::uintptr_t none = kNone;
    return word_.compare_exchange_strong(none, kAwaited, std::memory_order_acq_rel) ||
           none == kAwaited;
  }
  /// From now on each is given to the next in turn. False: one is there already.
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
  /// A list of what is here; no more is kept from now on.
  [[nodiscard]] BufferBlock* close() noexcept {
    const std::uintptr_t seen = word_.exchange(kClosed, std::memory_order_acq_rel);
    return seen == kAwaited || seen == kQueued ? nullptr : reinterpret_cast<BufferBlock*>(seen);
  }
  /// After close(): so many are out. True: none any more, and the caller frees the home.
  [[nodiscard]] bool expect(std::int64_t out) noexcept {
    return left_.fetch_add(out, std::memory_order_acq_rel) == -out;
  }
  /// For a futex.
  [[nodiscard]] std::atomic<std::uintptr_t>& word() noexcept { return word_; }

 private:
  std::atomic<std::uintptr_t> word_{kNone};  ///< A list, or one of the words above.
  std::atomic<std::int64_t> left_{0};        ///< Out after the end.
};

}  // namespace verbatim::detail
