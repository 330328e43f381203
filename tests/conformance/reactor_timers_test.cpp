// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a task that ends when a time is over ends the run(), whenever the reactor notices.
// Method: times about as long as a reactor spins before it sleeps, so that some end during its last
//         poll. Nothing else would wake it then, except a second task that does so too late.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>

#include "support/device_under_test.hpp"
#include "support/require.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

Task<Result<void>> rest(Reactor& reactor, std::chrono::nanoseconds time) {
  co_await reactor.sleep(time);  // wait: what the test is about
  co_return Result<void>{};
}
Task<void> wake_now_and_then(Reactor& reactor, std::chrono::nanoseconds time) {
  for (;;) co_await reactor.sleep(time);  // wait: so that the test ends if it fails
}

TEST(ReactorTimers, TaskThatEndsWithItsTimeEndsTheRun) {
  const Context context = open_context();
  auto reactor = require(Reactor::create(require(context.allocate_domain())));
  reactor.spawn(wake_now_and_then(reactor, kPatience));
  for (int i = 0; i < 1000; ++i) {
    const std::chrono::nanoseconds time{i * 100};
    const auto begin = Clock::now();
    ASSERT_TRUE(succeeds(reactor.run(rest(reactor, time))));
    ASSERT_LT(Clock::now() - begin, kPatience / 2)
        << "of a task that takes " << time.count() << " ns";
  }
}

TEST(ReactorTimers, DeadlineOfATagWakesALoopOfOnesOwn) {
  const Context context = open_context();
  const ProtectionDomain domain = require(context.allocate_domain());
  auto reactor = require(Reactor::create(domain));
  auto [left, right] = require(connect_pair(domain, {.on = reactor}));
  auto receiving = left.receive(require(domain.allocate(64)));
  int name = 0;
  reactor.notify(receiving, &name, 20ms);
  pollfd watched{.fd = reactor.fd(), .events = POLLIN, .revents = 0};
  void* tag = nullptr;
  while (reactor.poll(std::span{&tag, 1}) == 0)
    ASSERT_GT(::poll(&watched, 1, static_cast<int>(kPatience / 1ms)), 0);
  EXPECT_EQ(tag, &name);
  EXPECT_TRUE(fails_with(receiving.wait().result, Errc::timed_out));
}

}  // namespace
}  // namespace verbatim::test
