// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a task begins when it is awaited, returns its value or exception, and is destroyed where it
//       waits; frames are reused; when_all() is over when all are.
// Method: coroutines that wait for a gate that the test opens.
// Covers: reactor/frame_pool.cpp
#include "verbatim/reactor/task.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/throwing_contracts.hpp"
#include "verbatim/reactor/when_all.hpp"

namespace verbatim::test {
namespace {

/// A coroutine that awaits it continues when the test opens it.
class Gate {
 public:
  struct Awaiter {
    Gate& gate;
    [[nodiscard]] static bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) { gate.waiting_.push_back(waiting); }
    void await_resume() const noexcept {}
  };
  Awaiter operator co_await() { return {*this}; }
  void open() {
    for (const auto waiting : std::exchange(waiting_, {})) waiting.resume();
  }

 private:
  std::vector<std::coroutine_handle<>> waiting_{};
};

/// Runs a task to its first wait, and owns it.
struct Running {
  struct promise_type {
    Running get_return_object() {
      return Running{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    void unhandled_exception() { thrown = std::current_exception(); }
    std::exception_ptr thrown{};
  };
  explicit Running(std::coroutine_handle<promise_type> of) noexcept : coroutine(of) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { coroutine.destroy(); }
  [[nodiscard]] bool is_over() const { return coroutine.done(); }
  void rethrow() const {
    if (coroutine.promise().thrown) std::rethrow_exception(coroutine.promise().thrown);
  }
  std::coroutine_handle<promise_type> coroutine;
};
template <class T>
Running run(Task<T> task, T& out) {
  out = co_await std::move(task);
}
Running run(Task<void> task) { co_await std::move(task); }

Task<int> next(int number) {
  if (number < 0) throw std::invalid_argument("negative");
  co_return number + 1;
}

TEST(Task, BeginsWhenItIsAwaited) {
  bool began = false;
  const auto begin = [](bool& flag) -> Task<void> {
    flag = true;
    co_return;
  };
  Task<void> task = begin(began);
  EXPECT_FALSE(began);
  const Running running = run(std::move(task));
  EXPECT_TRUE(began);
  EXPECT_TRUE(running.is_over());
}

TEST(Task, GivesWhatItReturns) {
  const auto twice = [](int number) -> Task<std::string> {
    const int once = co_await next(number);
    co_return std::to_string(co_await next(once));
  };
  std::string out;
  const Running running = run(twice(40), out);
  EXPECT_EQ(out, "42");
}

TEST(Task, ThrowsWhatItThrows) {
  int out = 7;
  const Running running = run(next(-1), out);
  EXPECT_THROW(running.rethrow(), std::invalid_argument);
  EXPECT_EQ(out, 7);
}

TEST(Task, IsDestroyedWhereItWaits) {
  const auto held = std::make_shared<int>(1);
  Gate gate;
  const auto wait = [](Gate& at, std::shared_ptr<int>) -> Task<void> { co_await at; };
  {
    const Running running = run(wait(gate, held));
    EXPECT_FALSE(running.is_over());
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Task, OneThatWasNeverAwaitedIsDestroyedToo) {
  const auto held = std::make_shared<int>(1);
  {
    const auto idle = [](std::shared_ptr<int>) -> Task<void> { co_return; };
    Task<void> task = idle(held);
    Task<void> other = idle(held);
    task = std::move(other);
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Task, IsAwaitedOnce) {
  const ThrowingContracts contracts;
  Task<int> task = next(1);
  Task<int> moved = std::move(task);
  int out = 0;
  const auto again = [](Task<int>& gone) -> Task<int> { co_return co_await std::move(gone); };
  const Running running = run(again(task), out);
  EXPECT_THROW(running.rethrow(), ContractViolation);
}

TEST(WhenAll, IsOverWhenAllAre) {
  Gate first;
  Gate second;
  const auto wait = [](Gate& gate, int value) -> Task<int> {
    co_await gate;
    co_return value;
  };
  const auto silent = [](Gate& gate) -> Task<void> { co_await gate; };
  std::tuple<int, std::monostate, int> out{};
  const Running running = run(when_all(wait(first, 1), silent(second), wait(second, 3)), out);
  EXPECT_FALSE(running.is_over());
  second.open();
  EXPECT_FALSE(running.is_over());
  first.open();
  EXPECT_TRUE(running.is_over());
  EXPECT_EQ(std::get<0>(out), 1);
  EXPECT_EQ(std::get<2>(out), 3);
}

TEST(WhenAll, ThrowsTheFirstExceptionWhenAllAreOver) {
  Gate gate;
  const auto wait = [](Gate& at) -> Task<int> {
    co_await at;
    co_return 1;
  };
  std::tuple<int, int, int> out{};
  const Running running = run(when_all(wait(gate), next(-1), next(1)), out);
  EXPECT_FALSE(running.is_over());
  gate.open();
  EXPECT_THROW(running.rethrow(), std::invalid_argument);
}

TEST(WhenAll, OfTasksThatNeverWaitOrOfNone) {
  std::tuple<int, int> out{};
  const Running running = run(when_all(next(1), next(2)), out);
  EXPECT_EQ(out, (std::tuple{2, 3}));
  std::tuple<> nothing{};
  EXPECT_TRUE(run(when_all(), nothing).is_over());
}

#if !VERBATIM_ASAN
TEST(FramePool, UsesFramesAgain) {
  void* const first = detail::FramePool::take(100);
  detail::FramePool::put(first, 100);
  EXPECT_EQ(detail::FramePool::take(128), first) << "the same class of sizes";
  detail::FramePool::put(first, 128);
}
#endif

TEST(FramePool, FramesMayEndInAnotherThread) {
  for (const std::size_t bytes : {1u, 64u, 2000u, 5000u}) {
    void* const frame = detail::FramePool::take(bytes);
    std::jthread{[&] { detail::FramePool::put(frame, bytes); }}.join();
  }
}

}  // namespace
}  // namespace verbatim::test
