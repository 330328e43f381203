// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file How an io_context drives a reactor: polls while there is work, and waits for its fd().
#if defined(__clang__) && defined(__cpp_impl_coroutine) && !defined(ASIO_DETAIL_CONFIG_HPP)
// Asio 1.22 does not see that clang has coroutines with libstdc++, too. The CMake target
// verbatim::asio defines the same, for programs that include Asio first.
#ifndef ASIO_HAS_CO_AWAIT
#define ASIO_HAS_CO_AWAIT 1
#endif
#ifndef ASIO_HAS_STD_COROUTINE
#define ASIO_HAS_STD_COROUTINE 1
#endif
#endif
#include <cstddef>  // First: without a standard header before it Asio 1.22 allocates differently.

#include <asio/any_io_executor.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/channel/detail/waiters.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::detail {

/// In the ring of a loop: the waiting operations, and the loop itself.
struct AsioLink {
  AsioLink() noexcept : before(this), after(this) {}
  AsioLink(const AsioLink&) = delete;
  AsioLink& operator=(const AsioLink&) = delete;
  AsioLink* before;
  AsioLink* after;
};
/// A waiting operation.
struct AsioWaiter : Waiter, AsioLink {
  using Destroy = void (*)(AsioWaiter& self) noexcept;
  AsioWaiter(decltype(wake) over, Destroy gone) noexcept : Waiter{over}, destroy(gone) {}
  Destroy destroy;  ///< Does not call its handler.
};

/// Handlers of the io_context share it: one may be pending when the AsioReactor is destroyed.
class AsioLoop final : public std::enable_shared_from_this<AsioLoop> {
 public:
  AsioLoop(asio::any_io_executor on, Reactor& driven, int fd)
      : executor(std::move(on)), reactor_(&driven), descriptor_(executor, fd) {}

  void look() {
    is_posted_ = false;
    if (reactor_ == nullptr) return;
    is_looking = true;
    try {
      reactor_
          ->poll();  // Bounded, so that other handlers can run. If there is more, fd() is readable.
    } catch (...) {
      throw_later();
    }
    is_looking = false;
    if (reactor_ == nullptr) return;  // A handler has destroyed the AsioReactor.
    if (!is_waiting_) wait();
  }
  /// Something has begun: a deadline may be earlier now, or the completion may be there already.
  VERBATIM_HOT void notice() {
    if (!is_looking && !is_posted_) look_later();
  }
  void close() noexcept {
    reactor_ = nullptr;
    while (waiters_.after != &waiters_) {
      auto& waiter = static_cast<AsioWaiter&>(*waiters_.after);
      leave(waiter);
      waiter.destroy(waiter);
    }
    asio::error_code ignored;
    static_cast<void>(descriptor_.close(ignored));
  }

  VERBATIM_HOT void join(AsioLink& waiter) noexcept {
    waiter.before = &waiters_;
    waiter.after = waiters_.after;
    waiter.after->before = &waiter;
    waiters_.after = &waiter;
  }
  VERBATIM_HOT static void leave(const AsioLink& waiter) noexcept {
    waiter.before->after = waiter.after;
    waiter.after->before = waiter.before;
  }
  /// What a handler throws leaves io_context::run(), as with any other Asio handler.
  VERBATIM_COLD void throw_later() {
    asio::post(executor, [thrown = std::current_exception()] { std::rethrow_exception(thrown); });
  }

  const asio::any_io_executor executor;
  bool is_looking = false;

 private:
  void look_later() {
    is_posted_ = true;
    asio::post(executor, [self = shared_from_this()] { self->look(); });
  }
  void wait() {
    is_waiting_ = true;
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = shared_from_this()](const asio::error_code& failed) {
                             self->is_waiting_ = false;
                             if (!failed) self->look();
                           });
  }

  Reactor* reactor_;  ///< Null: the AsioReactor is gone.
  asio::posix::stream_descriptor descriptor_;
  AsioLink waiters_{};
  bool is_posted_ = false;
  bool is_waiting_ = false;
};

}  // namespace verbatim::detail
