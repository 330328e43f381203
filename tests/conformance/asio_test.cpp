// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: channels in an Asio program: any completion token, cancellation, and other handlers beside
//       them.
// Method: pairs of channels on one reactor that an io_context drives, with their lifetimes in any
//         order. Nothing waits longer than kPatience.
#include "verbatim/integration/asio.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "conformance/reactor_channels.hpp"
#include "support/completions.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class AsioTest : public ReactorChannels {
 protected:
  /// Runs until `over`; fails if that does not happen.
  void run_until(const bool& over) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!over && std::chrono::steady_clock::now() < end) io.run_one_for(100ms);
    ASSERT_TRUE(over);
  }

  static asio::awaitable<void> echo(AsioReactor& on, Channel& channel, Buffer buffer, Error& end) {
    for (;;) {
      auto got = co_await on.async_wait(channel.receive(std::move(buffer)), asio::use_awaitable);
      if (!got.result) {
        end = got.result.error();
        co_return;
      }
      auto sent = co_await on.async_wait(
          channel.send(std::move(got.buffer), {.length = *got.result->byte_count()}),
          asio::use_awaitable);
      if (!sent.result) {
        end = sent.result.error();
        co_return;
      }
      buffer = std::move(sent.buffer);
    }
  }
  /// Sends `count` numbers and gets them back. Returns how many came back right.
  static asio::awaitable<int> ask(AsioReactor& on, Channel& channel, Buffer out, Buffer in,
                                  int count) {
    int right = 0;
    for (int i = 0; i < count; ++i) {
      std::memcpy(out.bytes().data(), &i, sizeof i);
      auto receiving = channel.receive(std::move(in));
      auto sent = co_await on.async_wait(channel.send(std::move(out), {.length = sizeof i}),
                                         asio::use_awaitable);
      auto answer = co_await on.async_wait(std::move(receiving), asio::use_awaitable);
      if (!sent.result || !answer.result) break;
      int back = -1;
      std::memcpy(&back, answer.buffer.bytes().data(), sizeof back);
      right += back == i ? 1 : 0;
      out = std::move(sent.buffer);
      in = std::move(answer.buffer);
    }
    co_return right;
  }

  asio::io_context io{1};
  std::optional<AsioReactor> loop{require(AsioReactor::create(io, reactor))};
};

TEST_F(AsioTest, CoroutinesTalkSideBySide) {
  constexpr std::size_t kPairs = 16;
  constexpr int kRounds = 50;
  std::vector<std::pair<Channel, Channel>> pairs;
  std::vector<Error> ends(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) pairs.push_back(connected());
  int right = 0;
  std::size_t over = 0;
  bool all_over = false;
  for (std::size_t i = 0; i < kPairs; ++i) {
    asio::co_spawn(io, echo(*loop, pairs[i].second, memory(), ends[i]),
                   [&](const std::exception_ptr&) { all_over = ++over == kPairs; });
    asio::co_spawn(io, ask(*loop, pairs[i].first, memory(), memory(), kRounds),
                   [&, i](const std::exception_ptr&, int count) {
                     right += count;
                     pairs[i].second.cancel();
                   });
  }
  run_until(all_over);
  EXPECT_EQ(right, kPairs * kRounds);
  for (std::size_t i = 0; i < kPairs; ++i) {
    // A posted operation found it, or the next post was refused.
    EXPECT_EQ(pairs[i].second.cause(), Errc::cancelled) << "pair " << i;
    EXPECT_STRNE(ends[i].operation, "") << "pair " << i;
  }
}

TEST_F(AsioTest, CallbackIsCalledByRunAndNotInsideTheCall) {
  auto [left, right] = connected();
  const auto runner = std::this_thread::get_id();
  bool is_received = false;
  bool is_sent = false;
  loop->async_wait(right.receive(memory()), [&](Completed<Buffer> done) {
    EXPECT_TRUE(succeeds(done.result));
    EXPECT_TRUE(done.buffer);
    EXPECT_EQ(std::this_thread::get_id(), runner);
    is_received = true;
  });
  loop->async_wait(left.send(memory()), [&](const Completed<Buffer>& done) {
    EXPECT_TRUE(succeeds(done.result));
    is_sent = true;
  });
  EXPECT_FALSE(is_received || is_sent);
  run_until(is_received);
  run_until(is_sent);
}

TEST_F(AsioTest, RefusedOrFinishedOneIsToldByRunToo) {
  auto [left, right] = connected();
  std::vector<Pending<Buffer>> all;
  while (all.size() < 15) all.push_back(left.receive(memory()));
  const auto runner = std::this_thread::get_id();
  bool is_refused = false;
  loop->async_wait(left.receive(memory()), [&](Completed<Buffer> done) {
    EXPECT_EQ(std::this_thread::get_id(), runner);
    EXPECT_TRUE(done.buffer);
    ASSERT_FALSE(done.result);
    EXPECT_EQ(done.result.error(), Errc::would_block);
    is_refused = true;
  });
  EXPECT_FALSE(is_refused);
  run_until(is_refused);

  auto sending = right.send(memory());
  ASSERT_TRUE(sending.ready_within(kPatience));
  bool is_sent = false;
  loop->async_wait(std::move(sending), [&](const Completed<Buffer>& done) {
    EXPECT_TRUE(succeeds(done.result));
    is_sent = true;
  });
  EXPECT_FALSE(is_sent);
  run_until(is_sent);
}

TEST_F(AsioTest, FutureOfAnotherThread) {
  auto [left, right] = connected();
  auto received = loop->async_wait(right.receive(memory()), asio::use_future);
  auto sent = loop->async_wait(left.send(memory()), asio::use_future);
  std::thread runner{[&] { io.run_for(kPatience); }};
  EXPECT_EQ(received.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(sent.wait_for(kPatience), std::future_status::ready);
  io.stop();
  runner.join();
  EXPECT_TRUE(succeeds(sent.get().result));
  EXPECT_TRUE(received.get().buffer);
}

TEST_F(AsioTest, DeadlineOfAnOperationThatBeganWhileAllSlept) {
  auto [left, right] = connected();
  auto [one, other] = connected();
  bool is_over = false;
  asio::steady_timer timer{io, 5ms};
  timer.async_wait([&](const asio::error_code&) {
    loop->async_wait(
        left.receive(memory()),
        [&](Completed<Buffer> done) {
          EXPECT_TRUE(done.buffer);
          ASSERT_FALSE(done.result);
          EXPECT_EQ(done.result.error(), Errc::timed_out) << to_string(done.result.error());
          is_over = true;
        },
        10ms);
  });
  run_until(is_over);
  EXPECT_TRUE(left.cause());
  EXPECT_FALSE(one.cause());
}

TEST_F(AsioTest, LoserOfAnAlternativeCancelsItsChannel) {
  using namespace asio::experimental::awaitable_operators;
  auto [left, right] = connected();
  std::optional<std::size_t> winner;
  bool is_over = false;
  const auto wait = [](AsioReactor& on, Channel& channel, Buffer buffer,
                       std::optional<std::size_t>& first) -> asio::awaitable<void> {
    asio::steady_timer timer{on.get_executor(), 5ms};
    auto which = co_await (on.async_wait(channel.receive(std::move(buffer)), asio::use_awaitable) ||
                           timer.async_wait(asio::use_awaitable));
    first = which.index();
  };
  asio::co_spawn(io, wait(*loop, left, memory(), winner), [&](const std::exception_ptr& thrown) {
    EXPECT_FALSE(thrown);
    is_over = true;
  });
  run_until(is_over);
  EXPECT_EQ(winner, 1);
  ASSERT_TRUE(left.cause());
  EXPECT_EQ(*left.cause(), Errc::cancelled);
}

TEST_F(AsioTest, TerminalCancellationGivesTheBufferBack) {
  auto [left, right] = connected();
  asio::cancellation_signal signal;
  bool is_over = false;
  loop->async_wait(left.receive(memory()),
                   asio::bind_cancellation_slot(signal.slot(), [&](Completed<Buffer> done) {
                     EXPECT_TRUE(done.buffer);
                     ASSERT_FALSE(done.result);
                     EXPECT_EQ(done.result.error(), Errc::cancelled);
                     is_over = true;
                   }));
  // Cancellation is possible only if the channel may become unusable.
  signal.emit(asio::cancellation_type::total);
  io.poll();
  EXPECT_FALSE(is_over);
  EXPECT_FALSE(left.cause());
  signal.emit(asio::cancellation_type::terminal);
  EXPECT_FALSE(is_over);
  run_until(is_over);
  signal.emit(asio::cancellation_type::terminal);  // Nothing is left to cancel.
}

TEST_F(AsioTest, BusyReactorLeavesTurnsToOthers) {
  auto [left, right] = connected();
  constexpr int kMost = 1'000'000;
  int sent = 0;
  bool is_stopped = false;
  bool is_over = false;
  const auto flood = [](AsioReactor& on, Channel& from, Channel& to, Buffer out, Buffer in,
                        const bool& stop, int& count) -> asio::awaitable<void> {
    for (; !stop && count < kMost; ++count) {
      auto receiving = to.receive(std::move(in));
      out = (co_await on.async_wait(from.send(std::move(out)), asio::use_awaitable)).buffer;
      in = (co_await on.async_wait(std::move(receiving), asio::use_awaitable)).buffer;
    }
  };
  asio::co_spawn(io, flood(*loop, left, right, memory(), memory(), is_stopped, sent),
                 [&](const std::exception_ptr&) { is_over = true; });
  int turns = 0;
  std::function<void()> turn = [&] {
    if (sent > 1000 && ++turns == 10)
      is_stopped = true;
    else
      asio::post(io, turn);
  };
  asio::post(io, turn);
  run_until(is_over);
  EXPECT_LT(sent, kMost);
  EXPECT_EQ(turns, 10);
}

TEST_F(AsioTest, DestroyedLoopEndsCoroutinesWhereTheyWait) {
  auto [left, right] = connected();
  const auto witness = std::make_shared<int>(0);
  const auto wait = [](AsioReactor& on, Channel& channel, Buffer buffer,
                       std::shared_ptr<int> seen) -> asio::awaitable<void> {
    static_cast<void>(
        co_await on.async_wait(channel.receive(std::move(buffer)), asio::use_awaitable));
    ++*seen;
  };
  asio::co_spawn(io, wait(*loop, right, memory(), witness), asio::detached);
  io.poll();
  EXPECT_EQ(witness.use_count(), 2);
  loop.reset();
  io.restart();
  io.run_for(kPatience);  // Nothing is left to do.
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(*witness, 0);
  // The receive is still posted, and takes the message.
  EXPECT_TRUE(succeeds(left.send(memory()).wait().result));
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (right.dropped_messages() == 0 && std::chrono::steady_clock::now() < end) reactor.poll();
  EXPECT_EQ(right.dropped_messages(), 1);
  // Another AsioReactor drives the same reactor.
  loop.emplace(require(AsioReactor::create(io, reactor)));
  io.restart();
  bool is_sent = false;
  static_cast<void>(right.receive(memory()));
  loop->async_wait(left.send(memory()), [&](const Completed<Buffer>& done) {
    EXPECT_TRUE(succeeds(done.result));
    is_sent = true;
  });
  run_until(is_sent);
}

TEST_F(AsioTest, DescriptorIsClosedByExec) {
  const auto inheritable = [] {
    return std::ranges::count_if(std::filesystem::directory_iterator{"/proc/self/fd"},
                                 [](const std::filesystem::path& each) {
                                   const int flags = fcntl(std::stoi(each.filename()), F_GETFD);
                                   return flags >= 0 && (flags & FD_CLOEXEC) == 0;
                                 });
  };
  loop.reset();
  const auto before = inheritable();
  loop.emplace(require(AsioReactor::create(io, reactor)));
  EXPECT_EQ(inheritable(), before);
}

TEST_F(AsioTest, HandlerMayDestroyTheLoop) {
  auto [left, right] = connected();
  bool is_called = false;
  loop->async_wait(right.receive(memory()),
                   [](const Completed<Buffer>&) { ADD_FAILURE() << "called after the end"; });
  loop->async_wait(right.send(memory()), [&](const Completed<Buffer>&) {
    loop.reset();
    is_called = true;
  });
  static_cast<void>(left.receive(memory()));
  io.run_for(kPatience);  // Returns, because nobody waits at the reactor any more.
  EXPECT_TRUE(is_called);
  EXPECT_TRUE(io.stopped());
}

TEST_F(AsioTest, StoppedContextGoesOn) {
  auto [left, right] = connected();
  bool is_received = false;
  loop->async_wait(right.receive(memory()), [&](Completed<Buffer> done) {
    EXPECT_TRUE(succeeds(done.result));
    is_received = true;
  });
  io.stop();
  EXPECT_TRUE(succeeds(left.send(memory()).wait().result));
  EXPECT_EQ(io.poll(), 0);
  EXPECT_FALSE(is_received);
  io.restart();
  run_until(is_received);
}

TEST_F(AsioTest, ContextDestroyedWithOperationsThatWait) {
  auto [left, right] = connected();
  const auto witness = std::make_shared<int>(0);
  {
    asio::io_context other{1};
    AsioReactor on = require(AsioReactor::create(other, reactor));
    const auto wait = [](AsioReactor& by, Channel& channel, Buffer buffer,
                         std::shared_ptr<int>) -> asio::awaitable<void> {
      static_cast<void>(
          co_await by.async_wait(channel.receive(std::move(buffer)), asio::use_awaitable));
    };
    asio::co_spawn(other, wait(on, right, memory(), witness), asio::detached);
    other.poll();
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_FALSE(right.cause());
}

TEST_F(AsioTest, AwaitableThatNobodyAwaitsLeavesTheBufferToTheDevice) {
  auto [left, right] = connected();
  static_cast<void>(loop->async_wait(right.receive(memory()), asio::use_awaitable));
  bool is_sent = false;
  loop->async_wait(left.send(memory()), [&](const Completed<Buffer>& done) {
    EXPECT_TRUE(succeeds(done.result));
    is_sent = true;
  });
  run_until(is_sent);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (right.dropped_messages() == 0 && std::chrono::steady_clock::now() < end)
    io.run_one_for(10ms);
  EXPECT_EQ(right.dropped_messages(), 1);
}

TEST_F(AsioTest, ExceptionOfAHandlerComesOutOfRun) {
  auto [left, right] = connected();
  static_cast<void>(right.receive(memory()));
  static_cast<void>(right.receive(memory()));
  loop->async_wait(left.send(memory()),
                   [](const Completed<Buffer>&) { throw std::runtime_error("as intended"); });
  EXPECT_THROW(io.run_for(kPatience), std::runtime_error);
  bool is_sent = false;
  loop->async_wait(left.send(memory()), [&](const Completed<Buffer>&) { is_sent = true; });
  run_until(is_sent);
}

TEST_F(AsioTest, HandlerOfAnotherContextRunsThereAndIsWorkForIt) {
  auto [left, right] = connected();
  asio::io_context other{1};
  std::thread::id where;
  loop->async_wait(right.receive(memory()),
                   asio::bind_executor(other, [&](const Completed<Buffer>& done) {
                     EXPECT_TRUE(succeeds(done.result));
                     where = std::this_thread::get_id();
                   }));
  std::thread::id theirs;
  std::thread runner{[&] {
    theirs = std::this_thread::get_id();
    other.run_for(kPatience);  // Not over before the handler was called.
  }};
  bool is_sent = false;
  loop->async_wait(left.send(memory()), [&](const Completed<Buffer>&) { is_sent = true; });
  run_until(is_sent);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!other.stopped() && std::chrono::steady_clock::now() < end) io.run_one_for(10ms);
  runner.join();
  EXPECT_EQ(where, theirs);
}

TEST_F(AsioTest, ChannelDestroyedUnderAWaiterTellsIt) {
  std::optional pair{connected()};
  bool is_over = false;
  loop->async_wait(pair->first.receive(memory()), [&](Completed<Buffer> done) {
    EXPECT_TRUE(done.buffer);
    ASSERT_FALSE(done.result);
    EXPECT_EQ(done.result.error(), Errc::closed);
    is_over = true;
  });
  io.poll();  // Until it sleeps.
  pair.reset();
  run_until(is_over);
}

}  // namespace
}  // namespace verbatim::test
