// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a Pending works where a sender is expected: std::execution (P2300) accepts every awaitable
//       as a sender, so the library needs no senders of its own.
// Method: the concepts of P2300 for awaitables, written down here, for the two promises that P2300
//         uses: one without await_transform, and one whose await_transform passes on every
//         awaitable, like with_awaitable_senders. The tests use no sender library, because Debian
//         packages none.
#include <gtest/gtest.h>

#include <chrono>
#include <concepts>
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "conformance/connected_channels.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::test {
namespace {

// ---- [exec.awaitable] ---------------------------------------------------------------------------

template <class T>
concept AwaitSuspendResult = std::same_as<T, void> || std::same_as<T, bool> ||
                             std::convertible_to<T, std::coroutine_handle<>>;
template <class A, class Promise>
concept IsAwaiter = requires(A& awaiter, std::coroutine_handle<Promise> handle) {
  awaiter.await_ready() ? 1 : 0;
  { awaiter.await_suspend(handle) } -> AwaitSuspendResult;
  awaiter.await_resume();
};
/// GET-AWAITER of an expression c in a coroutine whose promise is p.
template <class C>
decltype(auto) awaiter_of(C&& c) {
  if constexpr (requires { std::forward<C>(c).operator co_await(); })
    return std::forward<C>(c).operator co_await();
  else if constexpr (requires { operator co_await(std::forward<C>(c)); })
    return operator co_await(std::forward<C>(c));
  else
    return std::forward<C>(c);
}
template <class C, class Promise>
decltype(auto) awaiter_in(C&& c, Promise& promise) {
  if constexpr (requires { promise.await_transform(std::forward<C>(c)); })
    return awaiter_of(promise.await_transform(std::forward<C>(c)));
  else
    return awaiter_of(std::forward<C>(c));
}
template <class C, class Promise>
concept IsAwaitable = requires(C (*make)(), Promise& promise) {
  { awaiter_in(make(), promise) } -> IsAwaiter<Promise>;
};
template <class C, class Promise>
using AwaitResult =
    decltype(awaiter_in(std::declval<C>(), std::declval<Promise&>()).await_resume());

// ---- The promises -------------------------------------------------------------------------------

/// env-promise: checks an awaitable outside a coroutine.
struct PlainPromise {};
/// with_awaitable_senders: passes on what is already awaitable.
struct HandingOnPromise {
  template <class T>
  T&& await_transform(T&& awaitable) noexcept {
    return std::forward<T>(awaitable);
  }
};

static_assert(IsAwaitable<Pending<Buffer>, PlainPromise>);
static_assert(IsAwaitable<Pending<Buffer>, HandingOnPromise>);
static_assert(std::same_as<AwaitResult<Pending<Buffer>, PlainPromise>, Completed<Buffer>>);
static_assert(std::same_as<AwaitResult<Pending<Buffer>, HandingOnPromise>, Completed<Buffer>>);
// connect() moves the sender.
static_assert(std::move_constructible<Pending<Buffer>>);
static_assert(std::is_nothrow_move_constructible_v<Pending<Buffer>>);
// Only an rvalue is awaitable, because the result is taken.
static_assert(!IsAwaitable<Pending<Buffer>&, PlainPromise>);

/// What connect() makes of an awaitable: a coroutine that owns it, begins when it is started, and
/// passes the value to a receiver.
template <class Base>
class Connected {
 public:
  struct promise_type : Base {
    Connected get_return_object() noexcept {
      return Connected{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    static void unhandled_exception() noexcept { std::terminate(); }
  };
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;
  ~Connected() { coroutine_.destroy(); }
  void start() const { coroutine_.resume(); }

 private:
  explicit Connected(std::coroutine_handle<promise_type> made) noexcept : coroutine_(made) {}
  std::coroutine_handle<promise_type> coroutine_;
};
template <class Base, class Sender, class Receiver>
Connected<Base> connect(Sender sender, Receiver receiver) {
  receiver(co_await std::move(sender));
}

class AwaitableSender : public testing::Test {
 protected:
  template <class Base>
  void expect_value() {
    const Context context = open_context();
    const ProtectionDomain domain = require(context.allocate_domain());
    Reactor reactor = require(Reactor::create(domain));
    auto [left, right] = require(connect_pair(domain, {.on = reactor}));
    std::optional<Completed<Buffer>> value;
    const auto operation =
        connect<Base>(right.receive(require(domain.allocate(64))),
                      [&](Completed<Buffer> done) { value.emplace(std::move(done)); });
    operation.start();
    reactor.poll();
    EXPECT_FALSE(value);
    EXPECT_TRUE(succeeds(left.send(require(domain.allocate(64))).wait().result));
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!value && std::chrono::steady_clock::now() < end) reactor.poll();
    ASSERT_TRUE(value);
    EXPECT_TRUE(succeeds(value->result));
    EXPECT_TRUE(value->buffer);
  }
};

TEST_F(AwaitableSender, CompletesInAPromiseWithoutTransform) { expect_value<PlainPromise>(); }
TEST_F(AwaitableSender, CompletesInAPromiseThatHandsAwaitablesOn) {
  expect_value<HandingOnPromise>();
}

}  // namespace
}  // namespace verbatim::test
