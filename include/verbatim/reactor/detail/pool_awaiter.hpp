// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How a coroutine waits for a buffer of a pool: in the order of the co_awaits, each for one.
///
/// While a coroutine waits, drops from any thread, including the taking one, go through the pool's
/// lock. The buffer then belongs to the first waiter, and its reactor is notified.
#include <coroutine>
#include <memory>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/timer.hpp"
#include "verbatim/verbs/buffer.hpp"

namespace verbatim::detail {

struct PoolState;
struct ReactorState;

class [[nodiscard("co_await it")]] PoolAwaiter final : Timer {
 public:
  PoolAwaiter(ReactorState& reactor, PoolState& pool, Deadline deadline) noexcept;
  PoolAwaiter(const PoolAwaiter&) = delete;
  PoolAwaiter& operator=(const PoolAwaiter&) = delete;
  ~PoolAwaiter();  ///< Leaves the queue; returns a buffer that it was given and did not take.
  [[nodiscard]] bool await_ready();
  /// False: a buffer is there by now.
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiting);
  [[nodiscard]] Result<Buffer> await_resume() noexcept;

 private:
  friend struct PoolState;
  /// What the work for the reactor's thread refers to: the coroutine may be gone by then.
  struct Told {
    PoolAwaiter* awaiter;
  };
  void go_on() noexcept;
  void tell();

  ReactorState& reactor_;
  PoolState* pool_;  ///< Null: the pool is gone.
  Deadline deadline_;
  std::coroutine_handle<> waiting_{};
  std::shared_ptr<Told> told_{};
  Buffer ready_;  ///< Taken without a wait.
  // Guarded by the pool's lock.
  BufferBlock* block_ = nullptr;
  PoolAwaiter* next_ = nullptr;
  bool is_queued_ = false;
};

}  // namespace verbatim::detail
