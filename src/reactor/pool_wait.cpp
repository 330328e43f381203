// SPDX-License-Identifier: MIT OR Apache-2.0
// Coroutines that wait for a buffer of a pool.
#include <mutex>
#include <utility>

#include "reactor/reactor_state.hpp"
#include "verbatim/reactor/detail/pool_awaiter.hpp"
#include "verbatim/reactor/pool.hpp"
#include "verbatim/reactor/reactor.hpp"
#include "verbatim/verbs/detail/access.hpp"

namespace verbatim {
namespace detail {

PoolAwaiter::PoolAwaiter(ReactorState& reactor, PoolState& pool, Deadline deadline) noexcept
    : Timer{[](Timer& self) noexcept { static_cast<PoolAwaiter&>(self).go_on(); }},
      reactor_(reactor),
      pool_(&pool),
      deadline_(deadline),
      ready_(Raw::buffer(nullptr)) {}

PoolAwaiter::~PoolAwaiter() {
  if (told_) told_->awaiter = nullptr;
  if (waiting_) reactor_.core->timers.remove(*this);
  if (pool_ != nullptr) pool_->leave_queue(*this);
  if (block_ != nullptr) static_cast<void>(Raw::buffer(block_));
}

bool PoolAwaiter::await_ready() {
  ready_ = pool_->take(std::source_location::current());
  return static_cast<bool>(ready_);
}

bool PoolAwaiter::await_suspend(std::coroutine_handle<> waiting) {
  told_ = std::make_shared<Told>(this);
  if (!pool_->join_queue(*this)) return false;
  waiting_ = waiting;
  reactor_.core->call_at(*this, deadline_);
  return true;
}

Result<Buffer> PoolAwaiter::await_resume() noexcept {
  if (ready_) return std::move(ready_);
  PoolState* const pool = std::exchange(pool_, nullptr);  // It may die with the buffer.
  if (pool == nullptr)
    return std::unexpected(
        Error{.code = Errc::closed, .operation = "pool", .field = "the pool was destroyed"});
  pool->leave_queue(*this);
  if (block_ != nullptr) return Raw::buffer(std::exchange(block_, nullptr));
  return std::unexpected(pool->all_are_out());
}

void PoolAwaiter::go_on() noexcept {
  reactor_.core->timers.remove(*this);
  if (waiting_) std::exchange(waiting_, nullptr).resume();
}

/// Called by any thread, under the pool's lock. The coroutine stays until the lock is released.
void PoolAwaiter::tell() {
  {
    const std::lock_guard lock{reactor_.mutex};
    reactor_.submitted.emplace_back([told = told_] {
      if (told->awaiter != nullptr) told->awaiter->go_on();
    });
  }
  reactor_.core->waker->wake();
}

// ---- The queue ----------------------------------------------------------------------------------

bool PoolState::join_queue(PoolAwaiter& awaiter) {
  const std::lock_guard lock{mutex};
  while (!returned.begin_queue()) {
    if (!collect()) continue;
    awaiter.block_ = std::exchange(free, free->next);  // Dropped meanwhile.
    if constexpr (VERBATIM_ASAN) arrive(*awaiter.block_);
    return false;
  }
  thread.store(0, std::memory_order_relaxed);  // Our own drops are now like those of any thread.
  (queue == nullptr ? queue : last_queued->next_) = &awaiter;
  last_queued = &awaiter;
  awaiter.is_queued_ = true;
  return true;
}

void PoolState::leave_queue(PoolAwaiter& awaiter) noexcept {
  const std::lock_guard lock{mutex};
  if (!std::exchange(awaiter.is_queued_, false)) return;
  PoolAwaiter* before = nullptr;
  for (PoolAwaiter* each = queue; each != &awaiter; each = each->next_) before = each;
  (before == nullptr ? queue : before->next_) = awaiter.next_;
  if (last_queued == &awaiter) last_queued = before;
  if (queue == nullptr) returned.end_queue();
}

bool PoolState::give_to_first(BufferBlock& block) noexcept {
  const std::lock_guard lock{mutex};
  if (queue == nullptr) return false;
  PoolAwaiter& first = *queue;
  queue = first.next_;
  first.is_queued_ = false;
  first.block_ = &block;
  if constexpr (VERBATIM_ASAN) arrive(block);
  if (queue == nullptr) returned.end_queue();
  first.tell();
  return true;
}

void PoolState::close_queue() noexcept {
  const std::lock_guard lock{mutex};
  for (PoolAwaiter* each = std::exchange(queue, nullptr); each != nullptr; each = each->next_) {
    each->is_queued_ = false;
    each->pool_ = nullptr;
    each->tell();
  }
}

}  // namespace detail

detail::PoolAwaiter Reactor::take(Pool& pool, Deadline deadline) noexcept {
  return {*state_, *pool.state_, deadline};
}

}  // namespace verbatim
