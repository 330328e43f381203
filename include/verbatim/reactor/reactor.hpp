// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file One thread, many channels: polls one completion queue for all of them, and wakes the
/// waiters.
///
///     auto reactor = VERBATIM_TRY(Reactor::create(domain));
///     auto listener = VERBATIM_TRY(Listener::open(domain, ":7000", {.channel = {.on = reactor}}));
///     return reactor.run(serve(reactor, listener));
///
/// Coroutines wait with co_await (await.hpp). Your own event loop waits with fd(), and gets tags
/// (notify() and poll()). While there is work the reactor polls. Then it yields the processor at
/// each turn, and then it sleeps until the device, a timer, a descriptor or another thread wakes
/// it.
///
/// Ownership: move-only. Spawned coroutines are destroyed with it. Its channels live on; then only
///            blocking calls drive them.
/// Threads:   one, the same for its channels. Any thread may call stop() and submit().
/// Fork:      it belongs to the process that created it.
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "verbatim/base/error.hpp"
#include "verbatim/channel/channel_options.hpp"
#include "verbatim/channel/deadline.hpp"
#include "verbatim/channel/detail/event_source.hpp"
#include "verbatim/channel/detail/file_descriptor.hpp"
#include "verbatim/channel/detail/timer.hpp"
#include "verbatim/channel/incoming.hpp"
#include "verbatim/channel/rendezvous.hpp"
#include "verbatim/reactor/await.hpp"
#include "verbatim/reactor/detail/pool_awaiter.hpp"
#include "verbatim/reactor/task.hpp"
#include "verbatim/verbs/protection_domain.hpp"

namespace verbatim {

class Pool;

namespace detail {
class Dialling;
struct ReactorState;

/// Waits for a time, a descriptor, or both.
class [[nodiscard("co_await it")]] EventAwaiter : EventSource, Timer {
 public:
  /// `events` are those of epoll; 0: only the time counts.
  EventAwaiter(ReactorState& reactor, int descriptor, std::uint32_t events,
               Deadline deadline) noexcept;
  EventAwaiter(const EventAwaiter&) = delete;
  EventAwaiter& operator=(const EventAwaiter&) = delete;
  ~EventAwaiter();  ///< Leaves the reactor's lists.
  [[nodiscard]] static bool await_ready() noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiting) noexcept;
  [[nodiscard]] Result<void> await_resume() const noexcept { return result_; }

 private:
  [[nodiscard]] bool watch() noexcept;
  void leave() noexcept;
  void go_on() noexcept;

  ReactorState& reactor_;
  int descriptor_;
  std::uint32_t events_;
  FileDescriptor duplicate_{};  ///< For a descriptor that another coroutine waits for, too.
  Deadline deadline_;
  std::coroutine_handle<> waiting_{};  ///< Null: not in a list.
  Result<void> result_{};
};
class [[nodiscard("co_await it")]] SleepAwaiter final : public EventAwaiter {
 public:
  using EventAwaiter::EventAwaiter;
  static void await_resume() noexcept {}
};

template <class T>
inline constexpr bool kIsResult = false;
template <class T>
inline constexpr bool kIsResult<Result<T>> = true;
}  // namespace detail

struct ReactorOptions {
  /// Operations of all channels together that may be in flight at once. It only reserves address
  /// space; the completion queue grows with the channels, as far as the device allows.
  std::uint32_t max_operations = 1u << 20;
  /// How long it polls in vain before it sleeps. It learns how much of this pays off.
  std::chrono::nanoseconds spin = std::chrono::microseconds{20};
  /// Buffers that all of its channels receive into: see incoming.hpp. Default: each channel posts
  /// its own receives.
  std::optional<SharedReceiveOptions> receives{};
  /// Logs a turn that takes longer, because it keeps all others waiting.
  std::chrono::nanoseconds warn = std::chrono::milliseconds{100};
};

class Reactor {
 public:
  [[nodiscard]] static Result<Reactor> create(const ProtectionDomain& domain,
                                              const ReactorOptions& options = {});

  /// For ChannelOptions::on.
  operator SharedCompletions() const noexcept;

  /// Runs until all spawned tasks are over, or until stop(). Throws what a task threw; the next
  /// run() continues with the others.
  void run();
  /// Runs until this task is over, and returns or throws its outcome. After stop() the task is
  /// destroyed where it waits, and its Result is `cancelled`.
  template <class T>
  T run(Task<T> task);
  /// Starts it now, and runs it up to its first co_await.
  void spawn(Task<void> task);

  /// Does what there is to do, and never sleeps: for your own loop, which waits for fd(). It polls
  /// at most 64 times, so that the rest of the loop can run; fd() then stays readable.
  std::size_t poll();
  /// Like poll(), and returns the tags of finished operations, at most `out.size()` of them. Call
  /// it until it returns none; after that, fd() reports more.
  std::size_t poll(std::span<void*> out);
  /// poll() returns `tag` when the operation is over; its wait() then returns at once.
  template <class Owner>
  void notify(Pending<Owner>& pending, void* tag, Deadline deadline = {}) {
    tell(detail::PendingAccess::channel(pending), detail::PendingAccess::slot(pending),
         detail::PendingAccess::is_to_come(pending), tag, deadline);
  }
  /// The same for the next message.
  void notify(Incoming& incoming, void* tag);
  /// For epoll: readable when poll() has something to do. Do not read it.
  [[nodiscard]] int fd() noexcept;

  /// co_await it: waits this long.
  [[nodiscard]] detail::SleepAwaiter sleep(std::chrono::nanoseconds time) noexcept;
  /// co_await it: until the descriptor can be read, or `timed_out`.
  [[nodiscard]] detail::EventAwaiter readable(int descriptor,
                                              Deadline deadline = kForever) noexcept;
  [[nodiscard]] detail::EventAwaiter writable(int descriptor,
                                              Deadline deadline = kForever) noexcept;
  /// co_await it: a buffer, as soon as one is dropped; the longest waiter gets it. `timed_out`;
  /// `closed` if the pool is destroyed meanwhile. Only in the thread that takes from the pool.
  [[nodiscard]] detail::PoolAwaiter take(Pool& pool, Deadline deadline = kForever) noexcept;
  /// The next client of a listener whose channels are on this reactor.
  [[nodiscard]] Task<Result<Connection>> accept(const Listener& listener,
                                                Deadline deadline = kForever);
  /// Like verbatim::dial(), on this reactor: `options.channel.on` is set for you. Give the options
  /// a name: g++ 12 destroys a temporary aggregate in a co_await twice.
  [[nodiscard]] Task<Result<Connection>> dial(const ProtectionDomain& domain,
                                              std::string_view address, const DialOptions& options);
  [[nodiscard]] Task<Result<Connection>> dial(const ProtectionDomain& domain,
                                              std::string_view address);
  void dial(const ProtectionDomain&, std::string_view, DialOptions&&) = delete;

  /// Buffers of the shared receives that the program does not hold and that hold no unread message.
  [[nodiscard]] std::uint32_t free_receives() const noexcept;

  /// Makes run() return as soon as possible. From any thread.
  void stop() noexcept;
  /// Runs `work` in the reactor's thread. From any thread. If run() is about to return, the next
  /// run() or poll() runs it; work that never ran is destroyed with the reactor.
  void submit(std::function<void()> work);

  Reactor(Reactor&&) noexcept;
  Reactor& operator=(Reactor&&) noexcept;
  ~Reactor();

 private:
  explicit Reactor(std::unique_ptr<detail::ReactorState> state) noexcept;
  Task<Result<Connection>> drive(std::shared_ptr<detail::Dialling> dialling);
  /// False: stopped. The task is gone in both cases.
  [[nodiscard]] bool run_until_over(Task<void> task);
  void tell(detail::ChannelCore& channel, detail::Slot& slot, bool is_to_come, void* tag,
            Deadline deadline);
  std::unique_ptr<detail::ReactorState> state_;
};

template <class T>
T Reactor::run(Task<T> task) {
  static_assert(std::is_void_v<T> || detail::kIsResult<T>,
                "verbatim: Reactor::run() of a Task<Result<T>> or a Task<void>: stop() may end it");
  if constexpr (std::is_void_v<T>) {
    static_cast<void>(run_until_over(std::move(task)));
  } else {
    T outcome{std::unexpect, Error{.code = Errc::cancelled, .operation = "Reactor::run"}};
    static_cast<void>(run_until_over([](Task<T> inner, T& out) -> Task<void> {
      out = co_await std::move(inner);
    }(std::move(task), outcome)));
    return outcome;
  }
}

}  // namespace verbatim
