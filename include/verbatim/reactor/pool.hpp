// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Buffers that are registered once, taken in a few instructions, and return when dropped.
///
///     auto pool = VERBATIM_TRY(Pool::create(domain, {.bytes = 4096, .count = 1024}));
///     Buffer buffer = pool.try_take();  // null: all are out
///
/// A buffer from a pool is a Buffer like any other. When it is dropped, by anyone and anywhere, it
/// is free again; also when the operation of a dropped Pending is over. It holds what its last user
/// left.
///
/// Ownership: move-only. The pool may be destroyed before its buffers: the last of them frees the
///            memory.
/// Threads:   one thread takes; the first take decides which. Any thread may drop buffers. The
/// taking
///            thread passes a pool on by moving it. Another thread may destroy it if the taking
///            thread drops none at the same time.
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/base/sanitizers.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/verbs/buffer.hpp"
#include "verbatim/verbs/detail/access.hpp"
#include "verbatim/verbs/detail/returned_blocks.hpp"
#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim {

struct PoolOptions {
  std::size_t bytes = 4096;   ///< The size of each buffer.
  std::uint32_t count = 256;  ///< Buffers. Only grow() adds more.
  HugePages huge_pages = HugePages::off;
};

namespace detail {
class PoolAwaiter;

/// Buffers of one size. It lives until the pool and all buffers are gone.
struct PoolState : BufferHome {
  PoolState(ProtectionDomain in, const PoolOptions& chosen) noexcept;
  ~PoolState();

  // For the taking thread only.
  BufferBlock* free = nullptr;
  /// The taking thread, whose drops go straight to `free`. 0: none yet, or none any more.
  std::atomic<std::uintptr_t> thread{0};
  std::uint32_t total = 0;
  const ProtectionDomain domain;
  const PoolOptions options;
  std::vector<Buffer> arenas{};
  std::deque<BufferBlock> blocks{};  ///< They never move.

  ReturnedBlocks returned{};  ///< By other threads.

  // Waiting coroutines, the first in front: detail/pool_awaiter.hpp.
  std::mutex mutex{};
  PoolAwaiter* queue = nullptr;
  PoolAwaiter* last_queued = nullptr;
  /// False: it got a buffer instead.
  [[nodiscard]] bool join_queue(PoolAwaiter& awaiter);
  void leave_queue(PoolAwaiter& awaiter) noexcept;
  [[nodiscard]] bool give_to_first(BufferBlock& block) noexcept;
  void close_queue() noexcept;
  [[nodiscard]] Error all_are_out() const noexcept;

  Result<void> grow(std::uint32_t count);
  /// Collects what other threads dropped.
  [[nodiscard]] bool collect() noexcept;
  [[nodiscard]] Result<Buffer> wait(Deadline deadline);
  void close() noexcept;

  VERBATIM_HOT Buffer take(std::source_location where) {
    BufferBlock* const block = free;
    if (block == nullptr || !is_taker()) [[unlikely]]
      return take_slowly(where);
    free = block->next;
    if constexpr (VERBATIM_ASAN) arrive(*block);
    return Raw::buffer(block);
  }
  [[nodiscard]] VERBATIM_HOT bool is_taker() const noexcept {
    return thread.load(std::memory_order_relaxed) == this_thread();
  }

 private:
  [[gnu::noinline]] Buffer take_slowly(std::source_location where);
  [[gnu::noinline]] void give_back_slowly(BufferBlock& block) noexcept;
  static void give_back(BufferHome& home, BufferBlock& block) noexcept;
  static void arrive(const BufferBlock& block) noexcept;  ///< For AddressSanitizer: usable again.
};

}  // namespace detail

class Pool {
 public:
  using Where = std::source_location;

  [[nodiscard]] static Result<Pool> create(const ProtectionDomain& domain,
                                           const PoolOptions& options = {});

  /// Null if all are out.
  [[nodiscard]] VERBATIM_HOT Buffer try_take(Where where = Where::current()) {
    return state_->take(where);
  }
  /// Waits until another thread drops one; default: 10 s. `timed_out` says how many are out. A
  /// coroutine waits with `co_await reactor.take(pool)`; while one does, this is `would_block`.
  [[nodiscard]] Result<Buffer> take(Deadline deadline = {}, Where where = Where::current());

  /// Adds that many, in a separate registration.
  [[nodiscard]] Result<void> grow(std::uint32_t count) { return state_->grow(count); }
  [[nodiscard]] std::size_t bytes() const noexcept { return state_->options.bytes; }
  [[nodiscard]] std::uint32_t count() const noexcept { return state_->total; }
  /// How many buffers a take would find. Counts them; only for the taking thread.
  [[nodiscard]] std::uint32_t free() const noexcept;

  Pool(Pool&& other) noexcept;
  Pool& operator=(Pool&& other) noexcept;
  ~Pool();

 private:
  friend class Reactor;
  explicit Pool(detail::PoolState* state) noexcept : state_(state) {}
  detail::PoolState* state_;
};

/// Pools of several sizes.
class Pools {
 public:
  using Where = std::source_location;

  /// Sizes in any order; one pool for each.
  [[nodiscard]] static Result<Pools> create(const ProtectionDomain& domain,
                                            std::vector<PoolOptions> sizes);

  /// The smallest size that holds `bytes`. Null if all of that size are out, or no size is that
  /// large. It does not take larger ones instead, so that small requests cannot use them up.
  [[nodiscard]] VERBATIM_HOT Buffer try_take(std::size_t bytes, Where where = Where::current()) {
    for (Pool* pool = first_[std::bit_width(bytes)]; pool != end_; ++pool)
      if (pool->bytes() >= bytes) [[likely]]
        return pool->try_take(where);
    return detail::Raw::buffer(nullptr);
  }
  /// Like Pool::take(); `limit_exceeded` if no size holds `bytes`.
  [[nodiscard]] Result<Buffer> take(std::size_t bytes, Deadline deadline = {},
                                    Where where = Where::current());
  [[nodiscard]] std::span<Pool> pools() noexcept { return pools_; }  ///< Smallest first.

 private:
  explicit Pools(std::vector<Pool> pools);
  std::vector<Pool> pools_;
  Pool* end_;  ///< The end of `pools_`, which never grows.
  std::array<Pool*, 65>
      first_{};  ///< By bit width: the smallest pool that may hold that many bytes.
};

}  // namespace verbatim
