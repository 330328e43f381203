// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a Reactor has: a completion core, an epoll, its coroutines, and what others gave it.
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "channel/completion_core.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::detail {

struct ReactorState;

/// A coroutine that nobody awaits.
struct Root {
  struct promise_type final : PromiseBase {
    promise_type(ReactorState& on, Task<void>& task) noexcept;
    Root get_return_object() noexcept { return {this}; }
    struct Leave {
      static bool await_ready() noexcept { return false; }
      static void await_suspend(std::coroutine_handle<promise_type> over) noexcept;
      static void await_resume() noexcept {}
    };
    static Leave final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    void unhandled_exception() noexcept { thrown = std::current_exception(); }

    ReactorState& reactor;
    promise_type* before = nullptr;
    promise_type* after = nullptr;
    void leave() noexcept;  ///< The reactor's list.
    bool* over = nullptr;   ///< Of run(task): told when it is.
    std::exception_ptr thrown{};
  };
  promise_type* promise;
};

struct ReactorState final : Driver {
  ReactorState(std::shared_ptr<CompletionCore> on, const ReactorOptions& chosen);
  ~ReactorState();
  [[nodiscard]] Result<void> open();

  /// One look, and all that follows from it. Whether anything came.
  [[nodiscard]] bool look() noexcept;
  /// After a look in vain: spins, gives the processor away, or sleeps.
  void pause() noexcept;
  /// So that fd() tells of what comes next; how often something came meanwhile.
  std::size_t arm() noexcept;
  /// Until `over`, or, without it, until no coroutine is left. False: stopped.
  bool run(const bool* over);
  void watch_source(EventSource& source, int fd, std::uint32_t before,
                    std::uint32_t events) noexcept;
  void wake_up() const noexcept;

  const std::shared_ptr<CompletionCore> core;
  const ReactorOptions options;
  FileDescriptor epoll{};
  FileDescriptor device_events{};
  Root::promise_type* roots = nullptr;
  std::exception_ptr thrown{};  ///< Out of a spawned task, until run() throws it.

  /// Tags of what is over, for poll().
  struct Tags final : Waiter {
    Tags() noexcept;
    std::vector<void*> finished{};
    std::size_t taken = 0;
  } tags{};

  std::atomic<bool> is_stopped{false};
  std::mutex mutex{};
  std::vector<std::function<void()>> submitted{};

 private:
  void settle() noexcept;
  bool be_idle(int count) noexcept;
  void look_around(int milliseconds) noexcept;
  void run_timers() noexcept;
  void attend_all() noexcept;
  void take_submitted() noexcept;
  [[nodiscard]] bool sleep() noexcept;

  struct Signal final : EventSource {
    explicit Signal(ReactorState& of, void (*call)(EventSource&, std::uint32_t) noexcept) noexcept
        : EventSource{call}, reactor(of) {}
    ReactorState& reactor;
  };
  Signal completions_came_;
  Signal woken_;
  Signal device_said_;
  std::array<epoll_event, 64> raised_{};
  std::span<epoll_event> left_{};  ///< Of `raised_`: not handled yet.
  std::uint64_t busy_turns_ = 0;
  std::uint64_t idle_turns_ = 0;
  std::uint64_t idle_since_ = 0;  ///< 0: it is busy.
  std::uint64_t spin_;
  bool is_armed_ = false;
};

}  // namespace verbatim::detail
