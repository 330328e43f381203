// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One operation that an Asio handler waits for.
#include "verbatim/integration/detail/asio_loop.hpp"  // First: it tells Asio about the compiler.

#include <asio/any_io_executor.hpp>
#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/dispatch.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/waiters.hpp"
#include "verbatim/channel/pending.hpp"
#include "verbatim/reactor/await.hpp"
#include "verbatim/reactor/detail/frame_pool.hpp"

namespace verbatim::detail {

/// A handler without an associated allocator uses the memory of coroutine frames.
template <class T>
struct FrameAllocator {
  using value_type = T;
  template <class U>
  explicit FrameAllocator(const std::allocator<U>&) noexcept {}
  static T* allocate(std::size_t count) {
    return static_cast<T*>(FramePool::take(count * sizeof(T)));
  }
  static void deallocate(T* memory, std::size_t count) noexcept {
    FramePool::put(memory, count * sizeof(T));
  }
};
template <class T, class Chosen>
struct AsioMemory {
  using Allocator = typename std::allocator_traits<Chosen>::template rebind_alloc<T>;
};
template <class T, class U>
struct AsioMemory<T, std::allocator<U>> {
  using Allocator = FrameAllocator<T>;
};

template <class Owner, class Handler>
class AsioOperation final : AsioWaiter {
 public:
  VERBATIM_HOT static void start(AsioLoop& loop, Pending<Owner>&& pending, Handler&& handler,
                                 Deadline deadline) {
    Allocator allocator{asio::get_associated_allocator(handler)};
    AsioOperation* const memory = Memory::allocate(allocator, 1);
    auto* const self = new (memory) AsioOperation(loop, std::move(pending), std::move(handler));
    if (!PendingAccess::is_to_come(self->pending_)) [[unlikely]] {
      self->hand_on(false);  // Never from inside the call that starts it.
      return;
    }
    loop.join(*self);
    auto slot = asio::get_associated_cancellation_slot(self->handler_);
    if (slot.is_connected()) {
      self->is_cancellable_ = true;
      slot.assign([self](asio::cancellation_type_t type) {
        if ((type & asio::cancellation_type::terminal) != asio::cancellation_type::none)
          cancel(PendingAccess::channel(self->pending_));
      });
    }
    ChannelCore& channel = PendingAccess::channel(self->pending_);
    Slot& awaited = PendingAccess::slot(self->pending_);
    if (deadline.kind() == Deadline::Kind::own)
      wake_at_end(channel, awaited, as_waiter(*self));
    else
      wake_at_end(channel, awaited, as_waiter(*self), end_of_wait(channel, awaited, deadline));
    loop.notice();
  }

 private:
  using Allocator =
      typename AsioMemory<AsioOperation, asio::associated_allocator_t<Handler>>::Allocator;
  using Memory = std::allocator_traits<Allocator>;
  static constexpr bool kOwnMemory = std::same_as<Allocator, FrameAllocator<AsioOperation>>;
  using Executor = asio::associated_executor_t<Handler, asio::any_io_executor>;
  using Work = asio::executor_work_guard<Executor>;

  VERBATIM_HOT AsioOperation(AsioLoop& on, Pending<Owner>&& posted, Handler&& told)
      : AsioWaiter{&AsioOperation::over, &AsioOperation::destroy_uncalled},
        loop_(on),
        pending_(std::move(posted)),
        handler_(std::move(told)) {
    const Executor executor = asio::get_associated_executor(handler_, loop_.executor);
    if (!is_same(loop_.executor, executor)) [[unlikely]]
      elsewhere_ = std::make_unique<Work>(executor);
  }

  VERBATIM_HOT static bool is_same(const asio::any_io_executor& own,
                                   const Executor& executor) noexcept {
    if constexpr (std::same_as<Executor, asio::any_io_executor>) {
      return own == executor;
    } else {
      const auto* const target = own.template target<Executor>();
      return target != nullptr && *target == executor;
    }
  }

  static void over(Waiter& waiter, Slot&) noexcept {
    auto& self = static_cast<AsioOperation&>(waiter);
    AsioLoop::leave(self);
    if (self.is_cancellable_) [[unlikely]]
      asio::get_associated_cancellation_slot(self.handler_).clear();
    if (!kOwnMemory || self.elsewhere_ != nullptr || !self.loop_.is_looking) [[unlikely]]
      return self.hand_on(true);
    AsioLoop& loop = self.loop_;
    try {
      std::move(self.handler_)(PendingAccess::take(self.pending_));
    } catch (...) {
      loop.throw_later();
    }
    self.~AsioOperation();
    FramePool::put(&self, sizeof self);
  }

  /// Posts to the handler's executor. Memory that belongs to others is released first.
  [[gnu::noinline]] void hand_on(bool may_be_now) noexcept {
    AsioLoop& loop = loop_;
    Completed<Owner> done = PendingAccess::take(pending_);
    Handler handler = std::move(handler_);
    const std::unique_ptr<Work> elsewhere = std::move(elsewhere_);
    free(handler);
    try {
      const Executor executor = asio::get_associated_executor(handler, loop.executor);
      auto bound = [handler = std::move(handler), done = std::move(done)]() mutable {
        std::move(handler)(std::move(done));
      };
      if (may_be_now)
        asio::dispatch(executor, std::move(bound));
      else
        asio::post(executor, std::move(bound));
    } catch (...) {
      loop.throw_later();
    }
  }
  void free(const Handler& handler) noexcept {
    Allocator allocator{asio::get_associated_allocator(handler)};
    this->~AsioOperation();
    Memory::deallocate(allocator, this, 1);
  }
  static void destroy_uncalled(AsioWaiter& waiter) noexcept {
    auto& self = static_cast<AsioOperation&>(waiter);
    if (self.is_cancellable_) asio::get_associated_cancellation_slot(self.handler_).clear();
    PendingAccess::withdraw(self.pending_);
    const Handler handler = std::move(self.handler_);  // Destroyed last: it may own the channel.
    self.free(handler);
  }

  AsioLoop& loop_;
  Pending<Owner> pending_;
  Handler handler_;
  std::unique_ptr<Work> elsewhere_{};  ///< Null: it is called on the executor of the loop.
  bool is_cancellable_ = false;        ///< Its cancellation slot refers to this.
};

}  // namespace verbatim::detail
