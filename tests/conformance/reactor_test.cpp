// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: many channels in one thread: each coroutine continues when its operation is over, and none
//       waits for a channel that has ended, or loses a buffer to it.
// Method: pairs of channels on one reactor, and what a program may do wrong with them.
// Covers: channel/dialling.cpp, channel/driving.cpp
// Covers: reactor/event_awaiter.cpp, reactor/reactor.cpp, reactor/reactor_loop.cpp
#include "verbatim/reactor/reactor.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "conformance/reactor_channels.hpp"
#include "support/completions.hpp"
#include "verbatim/reactor/async_scope.hpp"
#include "verbatim/reactor/close.hpp"
#include "verbatim/reactor/when_all.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class ReactorTest : public ReactorChannels {
 protected:
  /// Sends back what arrives, until the channel ends.
  static Task<void> echo(Channel& channel, Buffer buffer, Error& end) {
    for (;;) {
      auto [received, result] = co_await channel.receive(std::move(buffer));
      if (!result) {
        end = result.error();
        co_return;
      }
      auto [sent, went] =
          co_await channel.send(std::move(received), {.length = *result->byte_count()});
      if (!went) {
        end = went.error();
        co_return;
      }
      buffer = std::move(sent);
    }
  }
  /// Sends `count` numbers and gets them back. Returns how many came back right.
  static Task<Result<int>> ask(Channel& channel, Buffer out, Buffer in, int count) {
    int right = 0;
    for (int i = 0; i < count; ++i) {
      std::memcpy(out.bytes().data(), &i, sizeof i);
      auto receiving = channel.receive(std::move(in));
      auto [sent, went] = co_await channel.send(std::move(out), {.length = sizeof i});
      if (!went) co_return std::unexpected(went.error());
      auto [answer, came] = co_await std::move(receiving);
      if (!came) co_return std::unexpected(came.error());
      int back = -1;
      std::memcpy(&back, answer.bytes().data(), sizeof back);
      right += back == i ? 1 : 0;
      out = std::move(sent);
      in = std::move(answer);
    }
    co_return right;
  }

  static Task<Result<void>> part(Channel& channel) { co_return co_await close(channel); }
  static Result<void> fail() {
    return std::unexpected(Error{.code = Errc::work_failed, .operation = "test"});
  }
};

TEST_F(ReactorTest, ManyChannelsTalkSideBySide) {
  constexpr std::size_t kPairs = 32;
  constexpr int kRounds = 50;
  std::vector<std::pair<Channel, Channel>> pairs;
  std::vector<Error> ends(kPairs);
  std::vector<int> right(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) pairs.push_back(connected());
  const auto client = [](Task<Result<int>> asking, int& count, Channel& own) -> Task<void> {
    const auto answered = co_await std::move(asking);
    if (answered) count = *answered;
    own.cancel();
  };
  for (std::size_t i = 0; i < kPairs; ++i) {
    reactor.spawn(echo(pairs[i].second, memory(), ends[i]));
    reactor.spawn(
        client(ask(pairs[i].first, memory(), memory(), kRounds), right[i], pairs[i].second));
  }
  reactor.run();
  for (std::size_t i = 0; i < kPairs; ++i) {
    EXPECT_EQ(right[i], kRounds) << "pair " << i;
    // A posted operation found it, or the next post was refused.
    EXPECT_EQ(pairs[i].second.cause(), Errc::cancelled) << "pair " << i;
    EXPECT_STRNE(ends[i].operation, "") << "pair " << i;
  }
}

TEST_F(ReactorTest, DeadlineEndsItsChannelAndNoOther) {
  auto [left, right] = connected();
  auto [one, other] = connected();
  Error end;
  reactor.spawn(echo(other, memory(), end));
  const auto late = [](Channel& channel, Buffer buffer, bool& came_back, Error& why) -> Task<void> {
    auto [back, result] = co_await wait_until(channel.receive(std::move(buffer)), 20ms);
    came_back = static_cast<bool>(back);
    if (!result) why = result.error();
  };
  bool came_back = false;
  Error why;
  reactor.spawn(late(left, memory(), came_back, why));
  const auto answered = reactor.run(ask(one, memory(), memory(), 200));
  ASSERT_TRUE(answered) << to_string(answered.error());
  EXPECT_EQ(*answered, 200);
  other.cancel();
  reactor.run();
  EXPECT_TRUE(came_back);
  EXPECT_EQ(why, Errc::timed_out);
  EXPECT_TRUE(left.cause());
}

TEST_F(ReactorTest, EverybodyWhoWaitsOnAChannelGetsItsEnd) {
  auto [left, right] = connected();
  std::vector<Error> whys(3);
  const auto wait = [](Channel& channel, Buffer buffer, Deadline deadline,
                       Error& why) -> Task<void> {
    auto [back, result] = co_await wait_until(channel.receive(std::move(buffer)), deadline);
    EXPECT_TRUE(back);
    if (!result) why = result.error();
  };
  reactor.spawn(wait(left, memory(), kForever, whys[0]));
  reactor.spawn(wait(left, memory(), 10ms, whys[1]));
  reactor.spawn(wait(left, memory(), kForever, whys[2]));
  reactor.run();
  for (const Error& why : whys) EXPECT_EQ(why, Errc::timed_out) << to_string(why);
}

TEST_F(ReactorTest, ChannelDestroyedUnderAWaiterTellsIt) {
  std::optional pair{connected()};
  Error why;
  const auto wait = [](Channel& channel, Buffer buffer, Error& end) -> Task<void> {
    auto [back, result] = co_await channel.receive(std::move(buffer));
    EXPECT_TRUE(back);
    if (!result) end = result.error();
  };
  reactor.spawn(wait(pair->first, memory(), why));
  const auto destroy = [](std::optional<std::pair<Channel, Channel>>& doomed) -> Task<void> {
    doomed.reset();
    co_return;
  };
  reactor.spawn(destroy(pair));
  reactor.run();
  EXPECT_EQ(why, Errc::closed) << to_string(why);
}

TEST_F(ReactorTest, CoroutineDestroyedInFlightLeavesItsBufferToTheDevice) {
  auto [left, right] = connected();
  {
    Reactor other = std::move(reactor);
    const auto wait = [](Channel& channel, Buffer buffer) -> Task<void> {
      static_cast<void>(co_await channel.receive(std::move(buffer)));
      ADD_FAILURE() << "went on after its end";
    };
    other.spawn(wait(right, memory()));
  }
  // The reactor is gone, but its channels are not. The receive is still posted, and takes the
  // message.
  EXPECT_TRUE(succeeds(left.send(memory()).wait().result));
  while (right.dropped_messages() == 0) ASSERT_TRUE(right.poll());
  reactor = require(Reactor::create(domain));
}

TEST_F(ReactorTest, ExceptionOfASpawnedTaskComesOutOfRun) {
  const auto fail = []() -> Task<void> {
    throw std::runtime_error("as intended");
    co_return;
  };
  int slept = 0;
  const auto sleep = [](Reactor& on, int& times) -> Task<void> {
    co_await on.sleep(1ms);  // wait: it is what is tested.
    ++times;
  };
  reactor.spawn(sleep(reactor, slept));  // wait: it is what is tested.
  reactor.spawn(fail());
  EXPECT_THROW(reactor.run(), std::runtime_error);
  reactor.run();
  EXPECT_EQ(slept, 1);
  const auto fail_later = [](Reactor& on) -> Task<Result<void>> {
    co_await on.sleep(1ms);  // wait: it is what is tested.
    throw std::runtime_error("as intended");
  };
  EXPECT_THROW(static_cast<void>(reactor.run(fail_later(reactor))), std::runtime_error);
}

// A timer may become due between the last poll and the sleep, and it may be the only thing that
// wakes anyone.
TEST_F(ReactorTest, TimerThatComesDueJustBeforeTheSleepIsNotSleptOver) {
  Reactor sleepy = require(Reactor::create(domain, {.spin = 0ns}));
  const auto nap = [](Reactor& on, std::chrono::nanoseconds time) -> Task<Result<void>> {
    co_await on.sleep(time);  // wait: it is what is tested.
    co_return Result<void>{};
  };
  for (int i = 0; i < 4000; ++i)
    ASSERT_TRUE(succeeds(sleepy.run(nap(sleepy, std::chrono::nanoseconds{10 * (i % 4000)}))));
}

TEST_F(ReactorTest, CancelFromAnotherThreadWakesASleeper) {
  auto [left, right] = connected();
  Error end;
  reactor.spawn(echo(left, memory(), end));
  std::jthread other{[canceller = left.canceller()] { canceller.cancel(); }};
  reactor.run();
  EXPECT_EQ(end, Errc::cancelled) << to_string(end);
}

TEST_F(ReactorTest, StopAndSubmitFromAnotherThread) {
  std::thread::id ran{};
  std::jthread other{[&] {
    reactor.submit([&] {
      ran = std::this_thread::get_id();
      reactor.stop();
    });
  }};
  const auto forever = [](Reactor& on) -> Task<Result<void>> {
    co_await on.sleep(1h);  // wait: it is what is tested.
    co_return Result<void>{};
  };
  const auto stopped = reactor.run(forever(reactor));
  EXPECT_TRUE(fails_with(stopped, Errc::cancelled));
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST_F(ReactorTest, BlockingCallInsideACoroutineLosesNobodysCompletion) {
  auto [left, right] = connected();
  auto [one, other] = connected();
  Error end;
  reactor.spawn(echo(right, memory(), end));
  reactor.spawn(echo(other, memory(), end));
  const auto both = [](Channel& awaited, Channel& blocking, Buffer a, Buffer b,
                       Buffer c) -> Task<Result<void>> {
    auto receiving = awaited.receive(std::move(a));
    auto sent = awaited.send(std::move(b));
    if (auto done = blocking.send(std::move(c)).wait(); !done.result)
      co_return std::unexpected(done.result.error());
    if (auto done = co_await std::move(sent); !done.result)
      co_return std::unexpected(done.result.error());
    auto done = co_await std::move(receiving);
    if (!done.result) co_return std::unexpected(done.result.error());
    co_return Result<void>{};
  };
  EXPECT_TRUE(succeeds(reactor.run(both(left, one, memory(), memory(), memory()))));
}

TEST_F(ReactorTest, FirstOfSeveralIsToldAndTheOthersGoOn) {
  auto [left, right] = connected();
  const auto first = [](Channel& from, Channel& to, Buffer a, Buffer b,
                        Buffer message) -> Task<Result<std::size_t>> {
    auto never = from.receive(std::move(a));
    auto soon = to.receive(std::move(b));
    auto sending = from.send(std::move(message));
    const std::size_t which = co_await when_any(never, soon);
    EXPECT_FALSE(never.ready());
    if (auto done = co_await std::move(soon); !done.result)
      co_return std::unexpected(done.result.error());
    if (auto done = co_await std::move(sending); !done.result)
      co_return std::unexpected(done.result.error());
    co_return which;
  };
  const auto which = reactor.run(first(left, right, memory(), memory(), memory()));
  ASSERT_TRUE(which) << to_string(which.error());
  EXPECT_EQ(*which, 1u);
}

TEST_F(ReactorTest, WaitsForADescriptorOrATime) {
  const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto wait = [](Reactor& on, int descriptor) -> Task<Result<void>> {
    EXPECT_FALSE(co_await on.readable(descriptor, 5ms));
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(descriptor, &one, sizeof one), ssize_t{sizeof one});
    EXPECT_TRUE(co_await on.readable(descriptor, 10s));
    co_return Result<void>{};
  };
  EXPECT_TRUE(succeeds(reactor.run(wait(reactor, fd))));
  ::close(fd);
}

TEST_F(ReactorTest, TagsComeOutOfALoopOfOnesOwn) {
  auto [left, right] = connected();
  auto receiving = right.receive(memory());
  auto sending = left.send(memory());
  int names[2] = {};
  reactor.notify(receiving, &names[0]);
  reactor.notify(sending, &names[1]);
  std::vector<void*> seen;
  pollfd watched{.fd = reactor.fd(), .events = POLLIN, .revents = 0};
  while (seen.size() < 2) {
    void* tags[4];
    const std::size_t count = reactor.poll(tags);
    seen.insert(seen.end(), tags, tags + count);
    if (count == 0) {
      ASSERT_GT(::poll(&watched, 1, 10'000), 0);
    }
  }
  EXPECT_TRUE(succeeds(receiving.wait().result));
  EXPECT_TRUE(succeeds(sending.wait().result));
  EXPECT_NE(seen[0], seen[1]);
}

// ---- Scopes and ends ----------------------------------------------------------------------------

class ReactorScopes : public ReactorTest {
 protected:
  std::vector<std::byte> request = std::vector<std::byte>(64, std::byte{7});
  std::vector<std::byte> reply = std::vector<std::byte>(64);
  MemoryRegion from = require(domain.register_local(request));
  MemoryRegion into = require(domain.register_local(reply));
};

TEST_F(ReactorScopes, BorrowedMemoryIsBackWhenTheScopeIsOver) {
  auto [left, right] = connected();
  const auto exchange = [&](Channel& near, Channel& far) -> Task<Result<void>> {
    auto receiving = far.receive(memory());
    auto outcome = co_await async_scope(near, [&](Scope& scope) -> Task<Result<int>> {
      const Operation sending = scope.post(Send{from.gather(request)});
      if (auto sent = co_await over(scope, sending); !sent) co_return std::unexpected(sent.error());
      scope.post_detached(Send{from.gather(request)});
      std::ignore = scope.post(Receive{into.scatter(reply)});  // Nobody waits for it separately.
      if (auto sent = co_await far.send(memory()); !sent.result)
        co_return std::unexpected(sent.result.error());
      auto second = far.receive(memory());
      co_return 7;
    });
    if (!outcome) co_return std::unexpected(static_cast<Error>(outcome.error()));
    EXPECT_EQ(*outcome, 7);
    co_return (co_await std::move(receiving)).result ? Result<void>{} : fail();
  };
  EXPECT_TRUE(succeeds(reactor.run(exchange(left, right))));
}

TEST_F(ReactorScopes, BatchIsAwaited) {
  auto [left, right] = connected();
  const auto exchange = [&](Channel& near, Channel& far) -> Task<Result<void>> {
    auto one = far.receive(memory());
    auto two = far.receive(memory());
    auto outcome = co_await async_scope(near, [&](Scope& scope) -> Task<Result<void>> {
      const std::array batch{Send{from.gather(request)}, Send{from.gather(request)}};
      const auto sent = co_await over(scope, scope.post(batch));
      if (!sent) co_return std::unexpected(sent.error());
      co_return Result<void>{};
    });
    if (!outcome) co_return std::unexpected(static_cast<Error>(outcome.error()));
    if (!(co_await std::move(one)).result || !(co_await std::move(two)).result) co_return fail();
    co_return Result<void>{};
  };
  EXPECT_TRUE(succeeds(reactor.run(exchange(left, right))));
}

TEST_F(ReactorScopes, DeadlineOfAnOperationEndsTheChannelAndIsTold) {
  auto [left, right] = connected();
  const auto wait = [&](Channel& near) -> Task<Result<void>> {
    auto outcome = co_await async_scope(near, [&](Scope& scope) -> Task<Result<void>> {
      const auto never = co_await over(scope, scope.post(Receive{into.scatter(reply)}), 20ms);
      if (!never) co_return std::unexpected(never.error());
      co_return Result<void>{};
    });
    EXPECT_FALSE(outcome);
    if (!outcome) co_return std::unexpected(static_cast<Error>(outcome.error()));
    co_return Result<void>{};
  };
  EXPECT_TRUE(fails_with(reactor.run(wait(left)), Errc::timed_out));
}

TEST_F(ReactorScopes, ExceptionComesOutWhenAllIsOver) {
  auto [left, right] = connected();
  const auto fail_inside = [&](Channel& near, Channel& far) -> Task<Result<void>> {
    auto receiving = far.receive(memory());
    co_await async_scope(near, [&](Scope& scope) -> Task<void> {
      scope.post_detached(Send{from.gather(request)});
      co_await reactor.sleep(0ns);  // wait: it is what is tested.
      throw std::runtime_error("as intended");
    });
    co_return Result<void>{};
  };
  EXPECT_THROW(static_cast<void>(reactor.run(fail_inside(left, right))), std::runtime_error);
  EXPECT_FALSE(left.cause());
}

// The memory goes with the frame, so the device must have stopped before.
TEST_F(ReactorScopes, DestroyedInsideEndsTheChannelFirst) {
  auto [left, right] = connected();
  {
    Reactor other = require(Reactor::create(domain));
    auto pair = require(connect_pair(domain, {.on = other, .max_sends = 15, .max_receives = 15}));
    left = std::move(pair.first);
    right = std::move(pair.second);
    const auto wait = [](Channel& near, const ProtectionDomain& in) -> Task<void> {
      std::vector<std::byte> local(64);
      const MemoryRegion region = require(in.register_local(local));
      static_cast<void>(co_await async_scope(near, [&](Scope& scope) -> Task<void> {
        static_cast<void>(co_await over(scope, scope.post(Receive{region.scatter(local)})));
      }));
      ADD_FAILURE() << "went on after its end";
    };
    other.spawn(wait(left, domain));
    other.poll();
  }
  EXPECT_TRUE(left.is_over());
  EXPECT_EQ(left.cause(), Errc::cancelled);
}

TEST_F(ReactorTest, DialsAndAcceptsInOneThread) {
  for (const char* const host : {"127.0.0.1", "localhost"}) {
    auto listener = Listener::open(domain, std::string{host} + ":0", {.channel = {.on = reactor}});
    if (!listener) GTEST_SKIP() << to_string(listener.error());  // No such name here.
    const auto meet = [](Reactor& on, Listener& at, std::string address,
                         const ProtectionDomain& in) -> Task<Result<void>> {
      auto [accepted, dialled] = co_await when_all(on.accept(at, 10s), on.dial(in, address));
      if (!accepted) co_return std::unexpected(accepted.error());
      if (!dialled) co_return std::unexpected(dialled.error());
      auto both = co_await when_all(part(accepted->channel), part(dialled->channel));
      co_return std::get<0>(both) ? std::get<1>(both) : std::get<0>(both);
    };
    const std::string address = std::string{host} + ":" + std::to_string(listener->port());
    EXPECT_TRUE(succeeds(reactor.run(meet(reactor, *listener, address, domain)))) << host;
  }
}

TEST_F(ReactorTest, DialToNobodyIsLateAndDelaysNobody) {
  auto [one, other] = connected();
  Error end;
  reactor.spawn(echo(other, memory(), end));
  Error why;
  const auto call = [](Reactor& on, const ProtectionDomain& in, Error& error) -> Task<void> {
    const DialOptions options{.deadline = 50ms};
    const auto dialled = co_await on.dial(in, "127.0.0.1:1", options);
    if (!dialled) error = dialled.error();
  };
  reactor.spawn(call(reactor, domain, why));
  const auto answered = reactor.run(ask(one, memory(), memory(), 20));
  EXPECT_TRUE(answered && *answered == 20);
  other.cancel();
  reactor.run();
  EXPECT_EQ(why, Errc::timed_out) << to_string(why);
}

TEST_F(ReactorTest, CloseIsAwaitedWhileOthersRun) {
  auto [left, right] = connected();
  auto [one, other] = connected();
  Error end;
  reactor.spawn(echo(other, memory(), end));
  EXPECT_TRUE(succeeds(reactor.run(part(left))));
  EXPECT_TRUE(left.is_over());
  EXPECT_TRUE(succeeds(reactor.run(part(left)))) << "a second time";
  const auto answered = reactor.run(ask(one, memory(), memory(), 5));
  EXPECT_TRUE(answered && *answered == 5);
}

TEST_F(ReactorTest, CloseOfAnUnfinishedSendTellsThatItsTimeIsOver) {
  auto [left, right] = connected();
  auto sending = left.send(memory());  // Nobody receives it.
  const auto part = [](Channel& channel) -> Task<Result<void>> {
    co_return co_await close(channel, 20ms);
  };
  EXPECT_TRUE(fails_with(reactor.run(part(left)), Errc::timed_out));
  EXPECT_FALSE(sending.wait().result);
}

}  // namespace
}  // namespace verbatim::test
