// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What a Reactor consists of: a completion core, an epoll, its coroutines, and submitted
/// work.
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

#include "channel/clock.hpp"
#include "channel/completion_core.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::detail {

struct ReactorState;

/// A coroutine that nobody awaits.
struct Root {
  // NOLINTNEXTLINE(readability-identifier-naming): the language's name.
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
    [[nodiscard]] std::coroutine_handle<promise_type> handle() noexcept {
      return std::coroutine_handle<promise_type>::from_promise(*this);
    }
    bool* over = nullptr;  ///< For run(task): set when it is over.
    std::exception_ptr thrown{};
  };
  promise_type* promise;
};

struct ReactorState final : Driver {
  ReactorState(std::shared_ptr<CompletionCore> on, const ReactorOptions& chosen);
  ~ReactorState();
  [[nodiscard]] Result<void> open();

  /// Polls once and handles the results. Returns whether anything came.
  [[nodiscard]] bool look() noexcept;  // Inline where it is called: -9 / 0.
  /// After an empty poll: spins, yields the processor, or sleeps.
  void pause() noexcept;
  /// Arms fd() for what comes next; returns how often something came meanwhile.
  std::size_t arm() noexcept;
  /// Runs until `*over`, or, without it, until no coroutine is left. False: stopped.
  bool run(const bool* over);
  /// Polls up to kMostLooks times; then it is armed, or fd() is readable.
  std::size_t poll();
  std::size_t poll(std::span<void*> out);
  /// 0, or the errno of epoll.
  int watch_source(EventSource& source, int fd, std::uint32_t before,
                   std::uint32_t events) noexcept;

  const std::shared_ptr<CompletionCore> core;
  const ReactorOptions options;
  FileDescriptor epoll{};
  Waker device_events{};
  FileDescriptor alarm{};  ///< Makes fd() report timers. Set by arm(), once fd() was called.
  Root::promise_type* roots = nullptr;
  bool has_no_roots = true;
  std::exception_ptr thrown{};  ///< From a spawned task, until run() throws it.
  bool is_called_off = false;   ///< Something was thrown, or stop() was perhaps called.
  void call_off(std::exception_ptr exception) noexcept {
    thrown = std::move(exception);
    is_called_off = true;
  }

  /// Tags of finished operations, for poll().
  class Tags final : public Waiter {
   public:
    Tags() noexcept;
    /// From now on tags go to `out`, waiting ones first.
    void begin(std::span<void*> out) noexcept;
    void end() noexcept { next_ = end_ = nullptr; }
    [[nodiscard]] std::size_t count(std::span<void*> out) const noexcept {
      return static_cast<std::size_t>(next_ - out.data());
    }
    VERBATIM_HOT void add(void* tag) {
      if (next_ == end_) [[unlikely]]
        return keep(tag);
      *next_++ = tag;
    }

   private:
    VERBATIM_COLD void keep(void* tag);
    void** next_ = nullptr;
    void** end_ = nullptr;
    std::vector<void*> waiting_{};  ///< Tags that found no room.
  } tags{};
  bool has_shown_fd = false;
  std::atomic<std::uintptr_t> inside{0};  ///< The thread that is in run() or poll().

  std::atomic<bool> is_stopped{false};
  std::mutex mutex{};
  std::vector<std::function<void()>> submitted{};

 private:
  /// One thread at a time, and not from inside one of its coroutines. A violation that is seen is a
  /// programming error.
  class Visit {
   public:
    explicit Visit(ReactorState& reactor);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    ReactorState& reactor_;
  };
  void settle() noexcept;
  void read_clock() noexcept;
  bool be_idle(int count) noexcept;
  void be_busy() noexcept;
  /// Checks all descriptors; waits up to this many nanoseconds if nothing is there.
  void look_around(std::uint64_t longest) noexcept;
  /// Returns whether one was due.
  bool run_timers() noexcept;
  void attend_all() noexcept;
  void take_submitted() noexcept;
  [[nodiscard]] bool sleep() noexcept;
  void set_alarm() noexcept;

  struct Signal final : EventSource {
    explicit Signal(ReactorState& of, void (*call)(EventSource&, std::uint32_t) noexcept) noexcept
        : EventSource{call}, reactor(of) {}
    ReactorState& reactor;
  };
  Signal completions_came_;
  Signal woken_;
  Signal device_said_;
  Signal alarm_rang_;
  std::uint64_t alarm_at_ = kNever;
  std::array<epoll_event, 64> raised_{};
  std::span<epoll_event> left_{};  ///< The part of `raised_` that is not handled yet.
  std::uint64_t busy_turns_ = 0;
  std::uint64_t idle_turns_ = 0;
  std::uint64_t idle_since_ = 0;  ///< 0: it is busy.
  const std::uint64_t warn_after_;
  std::uint64_t next_warning_ = 0;
  std::uint64_t spin_;
  bool was_outside_ = true;  ///< Since the clock was last read.
  bool is_broken_ = false;
  bool is_armed_ = false;  ///< The completion queue will raise an event for the next completion, or
                           ///< has raised one.
};

}  // namespace verbatim::detail
