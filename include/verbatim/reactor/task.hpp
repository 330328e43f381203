// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file A coroutine: it starts when it is awaited or spawned, and is destroyed with its Task.
///
///     Task<Result<void>> serve(Channel channel);
///     co_await serve(std::move(channel));      reactor.spawn(…);      reactor.run(…);
///
/// co_await returns what it returned, or throws what it threw. Frames come from per-thread lists:
/// in steady state nothing is allocated.
///
/// Ownership: move-only. If a task is destroyed before its end, it is destroyed where it waits: its
///            buffers in flight stay with their slots, as with any dropped Pending.
/// Threads:   one.
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "verbatim/base/check.hpp"
#include "verbatim/reactor/detail/frame_pool.hpp"

namespace verbatim {

template <class T>
class Task;

namespace detail {

/// How the T that a coroutine returns is stored.
template <class T>
using Given = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// What all coroutines of this library have in common.
struct PromiseBase {
  std::coroutine_handle<> continuation{};  ///< The awaiting coroutine: set before it starts.

  static void* operator new(std::size_t bytes) { return FramePool::take(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    FramePool::put(frame, bytes);
  }
  static std::suspend_always initial_suspend() noexcept { return {}; }
  struct Final {
    static bool await_ready() noexcept { return false; }
    template <class Promise>
    static std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> over) noexcept {
      return over.promise().continuation;
    }
    static void await_resume() noexcept {}
  };
  static Final final_suspend() noexcept { return {}; }
};

/// The outcome lives in the frame.
template <class T>
struct Promise final : PromiseBase {
  static_assert(!std::is_reference_v<T>, "verbatim: a Task returns a value: a pointer, if need be");

  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& value) noexcept(std::is_nothrow_constructible_v<T, U>) {
    returned.emplace(std::forward<U>(value));
  }
  void unhandled_exception() noexcept { thrown = std::current_exception(); }
  T take() {
    if (thrown) [[unlikely]]
      std::rethrow_exception(thrown);
    return *std::move(returned);
  }

  std::optional<T> returned{};  // Not a variant of both: -40 / -20.
  std::exception_ptr thrown{};
};
template <>
struct Promise<void> final : PromiseBase {
  inline Task<void> get_return_object() noexcept;
  static void return_void() noexcept {}
  void unhandled_exception() noexcept { thrown = std::current_exception(); }
  void take() const {
    if (thrown) [[unlikely]]
      std::rethrow_exception(thrown);
  }

  std::exception_ptr thrown{};
};

}  // namespace detail

template <class T = void>
class [[nodiscard("a Task does nothing until it is awaited or spawned")]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Value = T;  ///< What a co_await returns.

  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (coroutine_) coroutine_.destroy();
      coroutine_ = std::exchange(other.coroutine_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (coroutine_) coroutine_.destroy();
  }

  class Awaiter {
   public:
    explicit Awaiter(std::coroutine_handle<promise_type> coroutine) noexcept
        : coroutine_(coroutine) {}
    [[nodiscard]] static bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
      coroutine_.promise().continuation = waiting;
      return coroutine_;
    }
    T await_resume() { return coroutine_.promise().take(); }

   private:
    std::coroutine_handle<promise_type> coroutine_;
  };
  /// Call it once: the task is over afterwards.
  Awaiter operator co_await() && {
    check(coroutine_ && !coroutine_.done(), "Task: awaited twice, or moved away before");
    return Awaiter{coroutine_};
  }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  std::coroutine_handle<promise_type> coroutine_;
};

template <class T>
Task<T> detail::Promise<T>::get_return_object() noexcept {
  return Task<T>{std::coroutine_handle<Promise>::from_promise(*this)};
}
inline Task<void> detail::Promise<void>::get_return_object() noexcept {
  return Task<void>{std::coroutine_handle<Promise>::from_promise(*this)};
}

}  // namespace verbatim
