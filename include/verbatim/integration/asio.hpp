// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Channels in an Asio program: an io_context drives the Reactor, and any completion token
/// can wait for an operation.
///
///     auto loop = VERBATIM_TRY(AsioReactor::create(io_context, reactor));
///     auto [buffer, result] = co_await loop.async_wait(channel.send(std::move(buffer)),
///                                                      asio::use_awaitable);
///
/// A handler gets a Completed, as from wait(): there is no error_code, and nothing is thrown. On
/// the executor of the loop, the poll that found the completion calls the handler directly.
///
/// Terminal cancellation (of a cancellation slot, or of the loser in `a || b`) cancels the channel,
/// because RDMA cannot cancel a single operation. The operation ends with `cancelled` when the
/// device is done with the buffer. Other kinds of cancellation are ignored.
///
/// Ownership: move-only. The io_context and the reactor must outlive it, and the reactor must not
///            move. Waiting operations are destroyed with it, and their handlers are not called: a
///            coroutine ends where it waits, as when an io_context is destroyed. Buffers in flight
///            stay with their slots. While it lives, io_context::run() has work.
/// Threads:   one, as for the reactor: that of io_context::run().
///
/// Not in verbatim.hpp: it needs Asio (1.22 or later; not Boost's). If you include Asio before this
/// header, link the CMake target verbatim::asio.
#include "verbatim/integration/detail/asio_operation.hpp"  // First: it tells Asio of coroutines.

#include <fcntl.h>

#include <asio/async_result.hpp>
#include <asio/io_context.hpp>
#include <cerrno>
#include <memory>
#include <type_traits>
#include <utility>

#include "verbatim/base/annotations.hpp"
#include "verbatim/base/error.hpp"
#include "verbatim/base/try.hpp"

namespace verbatim {

class AsioReactor {
 public:
  using executor_type = asio::any_io_executor;

  [[nodiscard]] static Result<AsioReactor> create(asio::any_io_executor executor,
                                                  Reactor& reactor VERBATIM_LIFETIMEBOUND) {
    // A separate descriptor: Asio closes it, and both may be destroyed in any order.
    const int fd = ::fcntl(reactor.fd(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return std::unexpected(os_failure("fcntl", errno));
    auto loop = std::make_shared<detail::AsioLoop>(std::move(executor), reactor, fd);
    loop->notice();
    return AsioReactor{std::move(loop)};
  }
  [[nodiscard]] static Result<AsioReactor> create(asio::io_context& io VERBATIM_LIFETIMEBOUND,
                                                  Reactor& reactor VERBATIM_LIFETIMEBOUND) {
    return create(asio::any_io_executor{io.get_executor()}, reactor);
  }

  [[nodiscard]] executor_type get_executor() const noexcept { return loop_->executor; }

  /// Waits as `co_await pending` does: a send for the channel's `timeout`, a receive for ever.
  /// `timed_out` ends the channel.
  template <class Owner, class Token>
  VERBATIM_HOT auto async_wait(Pending<Owner>&& pending, Token&& token) {
    return asio::async_initiate<Token, void(Completed<Owner>)>(Start{loop_.get()}, token,
                                                               std::move(pending));
  }
  template <class Owner, class Token>
  VERBATIM_HOT auto async_wait(Pending<Owner>&& pending, Token&& token, Deadline deadline) {
    return asio::async_initiate<Token, void(Completed<Owner>)>(Start{loop_.get()}, token,
                                                               std::move(pending), deadline);
  }

  AsioReactor(AsioReactor&&) noexcept = default;
  AsioReactor& operator=(AsioReactor&& other) noexcept {
    AsioReactor moved{std::move(other)};
    std::swap(loop_, moved.loop_);
    return *this;
  }
  ~AsioReactor() {
    if (loop_ != nullptr) loop_->close();
  }

 private:
  explicit AsioReactor(std::shared_ptr<detail::AsioLoop> loop) noexcept : loop_(std::move(loop)) {}

  /// A token may keep it for later, as use_awaitable does.
  struct Start {
    using executor_type = asio::any_io_executor;
    [[nodiscard]] executor_type get_executor() const noexcept { return loop->executor; }
    template <class Handler, class Owner>
    VERBATIM_HOT void operator()(Handler&& handler, Pending<Owner>&& pending,
                                 Deadline deadline = {}) const {
      static_assert(!std::is_lvalue_reference_v<Handler>);
      detail::AsioOperation<Owner, Handler>::start(*loop, std::move(pending),
                                                   std::forward<Handler>(handler), deadline);
    }
    detail::AsioLoop* loop;
  };

  std::shared_ptr<detail::AsioLoop> loop_;
};

}  // namespace verbatim
