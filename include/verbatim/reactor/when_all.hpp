// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Several tasks at the same time, and one co_await for all of them.
///
///     auto [value, other] = co_await when_all(lookup(a), lookup(b));
///
/// It is over when all tasks are, whatever their outcome. Then it throws the first exception, in
/// the order of the arguments. A Task<void> gives a std::monostate. Operations need none of this:
/// they run from the post on, so awaiting one Pending after the other is enough.
#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "verbatim/reactor/task.hpp"

namespace verbatim {

namespace detail {

/// How many parts are not over yet, and the coroutine that waits for them.
struct Latch {
  std::size_t left;
  std::coroutine_handle<> waiting{};
};

/// One of the tasks, as a coroutine that counts down the latch.
class Part {
 public:
  // NOLINTNEXTLINE(readability-identifier-naming): the language's name.
  struct promise_type : PromiseBase {
    Latch* latch = nullptr;
    Part get_return_object() noexcept {
      return Part{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    struct Done {
      static bool await_ready() noexcept { return false; }
      static std::coroutine_handle<> await_suspend(
          std::coroutine_handle<promise_type> over) noexcept {
        Latch& latch = *over.promise().latch;
        return --latch.left == 0 ? latch.waiting : std::noop_coroutine();
      }
      static void await_resume() noexcept {}
    };
    static Done final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    static void unhandled_exception() noexcept { std::terminate(); }  // Caught inside.
  };

  Part(Part&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Part& operator=(Part&&) = delete;
  ~Part() {
    if (coroutine_) coroutine_.destroy();
  }
  void begin(Latch& latch) {
    coroutine_.promise().latch = &latch;
    coroutine_.resume();
  }

 private:
  explicit Part(std::coroutine_handle<promise_type> made) noexcept : coroutine_(made) {}
  std::coroutine_handle<promise_type> coroutine_;
};

template <class T>
struct Outcome {
  std::optional<Given<T>> value{};
  std::exception_ptr thrown{};
};

template <class T>
Part make_part(Task<T> task, Outcome<T>& out) {
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(task);
      out.value.emplace();
    } else {
      out.value.emplace(co_await std::move(task));
    }
  } catch (...) {
    out.thrown = std::current_exception();
  }
}

template <std::size_t N>
struct AllAwaiter {
  std::array<Part, N>& parts;
  Latch& latch;
  [[nodiscard]] static bool await_ready() noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) {
    latch.waiting = waiting;
    for (Part& part : parts) part.begin(latch);
    return --latch.left != 0;  // One count was ours: nobody resumes us before here.
  }
  void await_resume() const noexcept {}
};

}  // namespace detail

template <class... T>
Task<std::tuple<detail::Given<T>...>> when_all(Task<T>... tasks) {
  std::tuple<detail::Outcome<T>...> outcomes;
  detail::Latch latch{.left = sizeof...(T) + 1};
  auto parts = std::apply(
      [&](auto&... out) {
        return std::array<detail::Part, sizeof...(T)>{detail::make_part(std::move(tasks), out)...};
      },
      outcomes);
  co_await detail::AllAwaiter<sizeof...(T)>{parts, latch};
  std::apply(
      [](auto&... out) { ((out.thrown ? std::rethrow_exception(out.thrown) : void()), ...); },
      outcomes);
  co_return std::apply(
      [](auto&... out) { return std::tuple<detail::Given<T>...>{*std::move(out.value)...}; },
      outcomes);
}

}  // namespace verbatim
