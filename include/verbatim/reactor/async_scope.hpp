// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Operations of a coroutine on borrowed memory: Channel::scope() for coroutines.
///
///     auto outcome = co_await async_scope(channel, [&](Scope& scope) -> Task<Result<void>> {
///       auto receiving = scope.post(Receive{region.scatter(reply)});
///       scope.post_detached(Send{region.gather(request)});
///       auto received = co_await over(scope, receiving, 1s);
///       if (!received) co_return std::unexpected(received.error());
///       co_return Result<void>{};
///     });
///
/// It resumes when the device is done with everything that was posted, whatever the closure did;
/// the outcomes are those of scope.hpp. The closure may also post its own locals: its frame
/// outlives the scope.
///
/// If it is destroyed while it waits, the channel ends (`cancelled`), with the proof that the
/// device has stopped, before any frame is destroyed. That blocks, for at most `flush_timeout`.
#include <coroutine>
#include <exception>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

#include "verbatim/channel/detail/scope_run.hpp"
#include "verbatim/channel/detail/waiters.hpp"
#include "verbatim/reactor/close.hpp"
#include "verbatim/reactor/task.hpp"

namespace verbatim {

namespace detail {

struct OperationAccess {
  static ChannelCore& channel(Scope& scope) noexcept { return scope.channel_; }
  static std::uint64_t id(Operation operation) noexcept { return operation.id_; }
  static Operation make(std::uint64_t id) noexcept { return Operation{id}; }
};

/// Waits until the operation is over; leaves its result.
class [[nodiscard("co_await it")]] SlotAwaiter {
 public:
  SlotAwaiter(ChannelCore& channel, std::uint64_t id, Deadline deadline) noexcept
      : channel_(channel), slot_(channel.slot(id)), id_(id), deadline_(deadline) {}
  SlotAwaiter(const SlotAwaiter&) = delete;
  SlotAwaiter& operator=(const SlotAwaiter&) = delete;
  ~SlotAwaiter() {
    if (is_waiting_) withdraw(slot_, id_);
  }
  [[nodiscard]] bool await_ready() const noexcept { return !is_to_come(channel_, slot_, id_); }
  void await_suspend(std::coroutine_handle<> waiting) noexcept {
    wake_at_end_of(channel_, slot_, as_waiter(waiting), deadline_);
    is_waiting_ = true;
  }
  void await_resume() noexcept { is_waiting_ = false; }

 private:
  ChannelCore& channel_;
  Slot& slot_;
  std::uint64_t id_;
  Deadline deadline_;
  bool is_waiting_ = false;
};

class [[nodiscard("co_await it")]] OperationAwaiter {
 public:
  OperationAwaiter(Scope& scope, Operation operation, Deadline deadline) noexcept
      : scope_(scope),
        operation_(operation),
        slot_(OperationAccess::channel(scope), OperationAccess::id(operation), deadline) {}
  [[nodiscard]] bool await_ready() const noexcept { return slot_.await_ready(); }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { slot_.await_suspend(waiting); }
  [[nodiscard]] Result<Completion> await_resume() noexcept {
    slot_.await_resume();
    return scope_.wait(operation_);  // Returns at once.
  }

 private:
  Scope& scope_;
  Operation operation_;
  SlotAwaiter slot_;
};

/// A scope in the frame of the coroutine that runs the closure.
class AsyncScopeRun {
 public:
  explicit AsyncScopeRun(ChannelCore& channel) noexcept : scope_(channel) {
    scope_.frame_.run_elsewhere();
  }
  AsyncScopeRun(const AsyncScopeRun&) = delete;
  AsyncScopeRun& operator=(const AsyncScopeRun&) = delete;
  ~AsyncScopeRun() { cancel_scope(scope_.channel_, scope_.state_); }

  [[nodiscard]] Scope& scope() noexcept { return scope_; }
  [[nodiscard]] Slot* left() noexcept { return first_left(scope_.channel_, scope_.state_); }
  [[nodiscard]] SlotAwaiter over(const Slot& slot) noexcept {
    return {scope_.channel_, slot.id, Deadline{}};
  }
  /// A failure that nobody waits for ends the channel, too.
  [[nodiscard]] bool is_failing() const noexcept { return is_ending(scope_.channel_); }
  [[nodiscard]] OverAwaiter end() noexcept { return OverAwaiter{scope_.channel_}; }

 private:
  Scope scope_;
};

/// The type that the closure's Task returns.
template <class F>
using AsyncReturn = typename std::invoke_result_t<F&, Scope&>::Value;
template <class F>
using AsyncOutcome = ScopeResult<typename ScopeReturn<AsyncReturn<F>>::Value,
                                 typename ScopeReturn<AsyncReturn<F>>::Failure>;

}  // namespace detail

/// co_await it: the result of an operation of the scope. Default: the channel's timeout.
[[nodiscard]] inline detail::OperationAwaiter over(Scope& scope, Operation operation,
                                                   Deadline deadline = {}) noexcept {
  return {scope, operation, deadline};
}

/// `body` takes a Scope& and returns a Task of nothing, a value, or a Result.
template <class F>
Task<detail::AsyncOutcome<F>> async_scope(
    Channel& channel, F body, std::source_location where = std::source_location::current()) {
  using Outcome = detail::AsyncOutcome<F>;
  using Returned = detail::AsyncReturn<F>;
  using Parts = detail::ScopeReturn<Returned>;
  using Failure = typename Parts::Failure;
  static_assert(!detail::kHoldsHandle<Returned>,
                "verbatim: the closure of a scope returns an Operation or the Scope: it would "
                "outlive the scope");
  // Destroyed from last to first: the proof, then the closure's frame.
  std::optional<Task<Returned>> running;
  std::optional<detail::Given<Returned>> returned;
  std::exception_ptr thrown;
  detail::AsyncScopeRun run{detail::ChannelAccess::core(channel, where)};
  try {
    running.emplace(body(run.scope()));
    if constexpr (std::is_void_v<Returned>) {
      co_await *std::move(running);
      returned.emplace();
    } else {
      returned.emplace(co_await *std::move(running));
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  while (const detail::Slot* const left = run.left()) co_await run.over(*left);
  if (run.is_failing()) co_await run.end();
  Failure* failure = nullptr;
  if constexpr (Parts::kIsResult)
    if (returned && !*returned) failure = &returned->error();
  auto left = detail::ScopeRun::leave<ScopeResult<void, Failure>, Failure>(run.scope(), failure,
                                                                           false, where);
  if (thrown) std::rethrow_exception(thrown);
  if (!left) co_return Outcome{std::unexpect, std::move(left.error())};
  if constexpr (std::is_void_v<typename Parts::Value>)
    co_return Outcome{};
  else if constexpr (Parts::kIsResult)
    co_return Outcome{std::move(**returned)};
  else
    co_return Outcome{std::move(*returned)};
}

}  // namespace verbatim
