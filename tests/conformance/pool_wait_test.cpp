// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: coroutines wait for buffers of a pool in order, and each drop wakes the first.
// Method: a pool of one or two buffers, on a reactor; drops by its own thread and by others.
// Covers: reactor/pool_wait.cpp
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/connected_channels.hpp"
#include "verbatim/reactor/pool.hpp"
#include "verbatim/reactor/reactor.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class PoolWait : public testing::Test {
 protected:
  [[nodiscard]] Pool make(std::uint32_t count) {
    return require(Pool::create(domain, {.bytes = 64, .count = count}));
  }
  static Task<void> take_one(Reactor& on, Pool& pool, int name, std::vector<int>& order,
                             Deadline deadline = kPatience) {
    auto buffer = co_await on.take(pool, deadline);
    EXPECT_TRUE(buffer) << name;
    order.push_back(name);
    static_cast<void>(co_await on.sleep(1ms));  // wait: others should queue behind it
  }

  Context context = open_context();
  ProtectionDomain domain = require(context.allocate_domain());
  Reactor reactor = require(Reactor::create(domain));
};

TEST_F(PoolWait, TakesAtOnceWhatIsThere) {
  Pool pool = make(1);
  std::vector<int> order;
  reactor.run(take_one(reactor, pool, 1, order));
  EXPECT_EQ(order, std::vector<int>{1});
  EXPECT_TRUE(pool.try_take());
}

TEST_F(PoolWait, WhoWaitsLongestIsFirst) {
  Pool pool = make(2);
  std::vector<int> order;
  for (int i = 0; i < 20; ++i) reactor.spawn(take_one(reactor, pool, i, order));
  EXPECT_EQ(order.size(), 2u);
  EXPECT_FALSE(pool.try_take());  // It must not overtake those that wait.
  reactor.run();
  ASSERT_EQ(order.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(pool.free(), 2u);
  Buffer again = pool.try_take();
  EXPECT_TRUE(again);
}

TEST_F(PoolWait, DropByAnotherThreadWakesASleeper) {
  Pool pool = make(1);
  std::optional<Buffer> only{pool.try_take()};
  std::vector<int> order;
  std::thread other;
  const auto drop_later = [](Reactor& on, std::optional<Buffer>& held,
                             std::thread& by) -> Task<void> {
    static_cast<void>(co_await on.sleep(5ms));  // wait: the reactor should fall asleep
    by = std::thread{[&] { held.reset(); }};
  };
  reactor.spawn(take_one(reactor, pool, 1, order));
  reactor.spawn(drop_later(reactor, only, other));
  reactor.run();
  other.join();
  EXPECT_EQ(order, std::vector<int>{1});
}

TEST_F(PoolWait, ManyThreadsDropAndNothingIsLost) {
  constexpr int kRounds = 2000;
  Pool pool = make(4);
  std::vector<std::thread> droppers;
  int taken = 0;
  const auto client = [](Reactor& on, Pool& from, int& count) -> Task<void> {
    for (int i = 0; i < kRounds; ++i) {
      auto buffer = co_await on.take(from, kPatience);
      if (!buffer) co_return;
      ++count;
      // The reactor's own thread drops every other one.
      if (i % 2 == 0) on.submit([held = std::make_shared<Buffer>(*std::move(buffer))] {});
    }
  };
  std::mutex mutex;
  std::vector<Buffer> thrown;
  bool is_over = false;
  for (int i = 0; i < 2; ++i)
    droppers.emplace_back([&] {
      for (;;) {
        std::vector<Buffer> mine;
        {
          const std::lock_guard lock{mutex};
          if (is_over && thrown.empty()) return;
          mine.swap(thrown);
        }
        mine.clear();
        std::this_thread::yield();
      }
    });
  const auto thrower = [](Reactor& on, Pool& from, int& count, std::mutex& lock,
                          std::vector<Buffer>& out) -> Task<void> {
    for (int i = 0; i < kRounds; ++i) {
      auto buffer = co_await on.take(from, kPatience);
      if (!buffer) co_return;
      ++count;
      const std::lock_guard held{lock};
      out.push_back(*std::move(buffer));
    }
  };
  for (int i = 0; i < 4; ++i) {
    reactor.spawn(client(reactor, pool, taken));
    reactor.spawn(thrower(reactor, pool, taken, mutex, thrown));
  }
  reactor.run();
  {
    const std::lock_guard lock{mutex};
    is_over = true;
  }
  for (std::thread& each : droppers) each.join();
  EXPECT_EQ(taken, 8 * kRounds);
  // What was submitted last may still hold a buffer.
  EXPECT_TRUE(eventually([&] {
    reactor.poll();
    return pool.free() == 4;
  })) << pool.free();
}

TEST_F(PoolWait, DeadlineTellsHowManyAreOut) {
  Pool pool = make(1);
  const Buffer only = pool.try_take();
  const auto wait = [](Reactor& on, Pool& from) -> Task<Result<Buffer>> {
    co_return co_await on.take(from, 5ms);
  };
  const auto taken = reactor.run(wait(reactor, pool));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error(), Errc::timed_out);
  EXPECT_EQ(taken.error().value, 1u);
  EXPECT_EQ(pool.free(), 0u);
}

TEST_F(PoolWait, DestroyedCoroutineLeavesTheQueue) {
  Pool pool = make(1);
  std::optional<Buffer> only{pool.try_take()};
  std::vector<int> order;
  {
    Reactor other = require(Reactor::create(domain));
    other.spawn(take_one(other, pool, 1, order));
    // It would block for ever behind the coroutine that waits.
    const auto blocked = pool.take(1ms);
    ASSERT_FALSE(blocked);
    EXPECT_EQ(blocked.error(), Errc::would_block);
  }
  only.reset();
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(pool.free(), 1u);
  EXPECT_TRUE(pool.try_take());
}

TEST_F(PoolWait, BufferOfACoroutineThatIsDestroyedBeforeItGoesOnComesHome) {
  Pool pool = make(1);
  std::optional<Buffer> only{pool.try_take()};
  std::vector<int> order;
  {
    Reactor other = require(Reactor::create(domain));
    other.spawn(take_one(other, pool, 1, order));
    only.reset();  // The coroutine has the buffer, but has not learned of it.
    EXPECT_FALSE(pool.try_take());
  }
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(pool.free(), 1u);
}

TEST_F(PoolWait, DestroyedPoolTellsWhoWaits) {
  std::optional<Pool> pool{make(1)};
  const Buffer only = pool->try_take();
  std::vector<Error> whys;
  const auto wait = [](Reactor& on, Pool& from, std::vector<Error>& out) -> Task<void> {
    auto taken = co_await on.take(from, kPatience);
    if (!taken) out.push_back(taken.error());
  };
  for (int i = 0; i < 2; ++i) reactor.spawn(wait(reactor, *pool, whys));
  pool.reset();
  reactor.run();
  ASSERT_EQ(whys.size(), 2u);
  for (const Error& why : whys) EXPECT_EQ(why, Errc::closed);
}

}  // namespace
}  // namespace verbatim::test
