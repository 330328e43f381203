// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the buffers of a pool are separate parts of one registration; each comes home once, whoever
//       drops it and when, even after the pool is gone.
// Method: the null provider, which fails a test that leaves a registration or memory behind.
#include "verbatim/reactor/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "support/null_device.hpp"
#include "support/throwing_contracts.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class PoolTest : public NullDevice {
 protected:
  ProtectionDomain domain() { return require(open().allocate_domain()); }
  Pool make(const PoolOptions& options) { return require(Pool::create(domain(), options)); }

  static std::vector<Buffer> take_all(Pool& pool) {
    std::vector<Buffer> taken;
    while (Buffer buffer = pool.try_take()) taken.push_back(std::move(buffer));
    return taken;
  }
};

TEST_F(PoolTest, GivesEachBufferToOne) {
  Pool pool = make({.bytes = 100, .count = 17});
  EXPECT_EQ(pool.count(), 17u);
  EXPECT_EQ(pool.free(), 17u);
  std::vector<Buffer> taken = take_all(pool);
  ASSERT_EQ(taken.size(), 17u);
  EXPECT_EQ(pool.free(), 0u);
  for (std::size_t i = 0; i < taken.size(); ++i)
    std::ranges::fill(taken[i].bytes(), static_cast<std::byte>(i));
  for (std::size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i].size(), 100u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken[i].bytes().data()) % 64, 0u);
    EXPECT_TRUE(std::ranges::all_of(taken[i].bytes(),
                                    [&](std::byte each) { return each == std::byte(i); }));
  }
}

TEST_F(PoolTest, TakesADroppedOneAgain) {
  Pool pool = make({.bytes = 64, .count = 2});
  Buffer first = pool.try_take();
  auto second = std::make_unique<Buffer>(pool.try_take());
  const std::byte* const where = second->bytes().data();
  EXPECT_FALSE(pool.try_take());
  second.reset();
  second = std::make_unique<Buffer>(pool.try_take());
  EXPECT_EQ(second->bytes().data(), where);
  second.reset();
  first = pool.try_take();  // The replaced buffer comes home, too.
  EXPECT_EQ(pool.free(), 1u);
}

TEST_F(PoolTest, ABufferIsItsPartOfTheRegistrationAndNoMore) {
  Pool pool = make({.bytes = 100, .count = 2});
  Buffer first = pool.try_take();
  const Buffer second = pool.try_take();
  EXPECT_EQ(first.region().length(), 100u);
  EXPECT_TRUE(first.region().encloses(first.bytes().data(), 100));
  EXPECT_FALSE(first.region().try_gather(second.bytes()));
  EXPECT_TRUE(first.region().try_scatter(first.bytes()));
  EXPECT_EQ(unsafe::native(first.region()), unsafe::native(second.region()));
}

TEST_F(PoolTest, OneDroppedWhileItIsLookedAtComesHomeAfterTheLook) {
  Pool pool = make({.bytes = 64, .count = 1});
  Buffer buffer = pool.try_take();
  buffer.with([&](std::span<std::byte> bytes) {
    {
      const Buffer dropped = std::move(buffer);
    }
    EXPECT_FALSE(pool.try_take());
    bytes[0] = std::byte{1};
  });
  EXPECT_TRUE(pool.try_take());
}

TEST_F(PoolTest, GoesBeforeItsBuffers) {
  std::optional<Buffer> left;
  {
    Pool pool = make({.bytes = 64, .count = 4});
    [[maybe_unused]] const Buffer other = pool.try_take();
    left.emplace(pool.try_take());
  }
  std::ranges::fill(left->bytes(), std::byte{1});
  EXPECT_GT(live(), 0);
  left.reset();
  EXPECT_EQ(live(), 0);
}

TEST_F(PoolTest, BuffersThatOtherThreadsDropComeHome) {
  constexpr int kThreads = 4;
  Pool pool = make({.bytes = 64, .count = 64});
  for (int round = 0; round < 200; ++round) {
    std::vector<Buffer> taken = take_all(pool);
    ASSERT_EQ(taken.size(), 64u) << "round " << round;
    std::vector<std::vector<Buffer>> shares(kThreads);
    for (std::size_t i = 0; i < taken.size(); ++i)
      shares[i % kThreads].push_back(std::move(taken[i]));
    std::vector<std::jthread> threads;
    for (auto& share : shares)
      threads.emplace_back([mine = std::move(share)]() mutable { mine.clear(); });
    // Meanwhile, a buffer that is there belongs to nobody else.
    for (int look = 0; look < 20; ++look)
      if (Buffer buffer = pool.try_take()) std::memset(buffer.bytes().data(), look, 64);
  }
  EXPECT_EQ(pool.free(), 64u);
}

TEST_F(PoolTest, ThreadsDropTheLastBuffersWhileThePoolGoes) {
  constexpr std::size_t kThreads = 3;
  for (int round = 0; round < 300; ++round) {
    std::optional pool{make({.bytes = 64, .count = 2 * kThreads})};
    std::vector<Buffer> taken = take_all(*pool);
    std::barrier start{kThreads + 1};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&start, one = std::optional{std::move(taken[2 * i])},
                            two = std::optional{std::move(taken[2 * i + 1])}]() mutable {
        start.arrive_and_wait();
        one.reset();
        two.reset();
      });
    start.arrive_and_wait();
    pool.reset();
    threads.clear();
    ASSERT_EQ(live(), 0) << "round " << round;
  }
}

TEST_F(PoolTest, WaitsUntilAnotherThreadDropsOne) {
  Pool pool = make({.bytes = 64, .count = 1});
  for (int round = 0; round < 100; ++round) {
    std::jthread other{[buffer = std::optional{pool.try_take()}]() mutable { buffer.reset(); }};
    const auto taken = pool.take(kForever);
    ASSERT_TRUE(taken) << to_string(taken.error());
  }
}

TEST_F(PoolTest, AWaitInVainSaysHowManyAreOut) {
  Pool pool = make({.bytes = 64, .count = 3});
  const std::vector<Buffer> taken = take_all(pool);
  const auto none = pool.take(5ms);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error(), Errc::timed_out);
  EXPECT_EQ(none.error().value, 3u);
  EXPECT_EQ(pool.take(-1s).error(), Errc::timed_out);
  EXPECT_EQ(pool.take(std::chrono::steady_clock::now()).error(), Errc::timed_out);
}

TEST_F(PoolTest, AnotherThreadMayNotTake) {
  Pool pool = make({.bytes = 64, .count = 2});
  const Buffer mine = pool.try_take();
  std::jthread{[&] {
    const ThrowingContracts contracts;
    EXPECT_THROW(static_cast<void>(pool.try_take()), ContractViolation);
  }}.join();
}

TEST_F(PoolTest, AThreadThatTakesHandsItOnByMovingIt) {
  Pool pool = make({.bytes = 64, .count = 2});
  Buffer mine = pool.try_take();
  std::jthread{[&, moved = std::move(pool)]() mutable {
    const Buffer here = moved.try_take();
    EXPECT_TRUE(here);
    pool = std::move(moved);
  }}.join();
  mine = pool.try_take();
  EXPECT_TRUE(mine);
  EXPECT_EQ(pool.free(), 1u);
}

TEST_F(PoolTest, GrowsByMore) {
  Pool pool = make({.bytes = 64, .count = 2});
  std::vector<Buffer> taken = take_all(pool);
  require(pool.grow(3));
  EXPECT_EQ(pool.count(), 5u);
  for (Buffer& more : take_all(pool)) taken.push_back(std::move(more));
  EXPECT_EQ(taken.size(), 5u);
  taken.clear();
  EXPECT_EQ(pool.free(), 5u);
}

TEST_F(PoolTest, RefusesSizesThatCannotBe) {
  const ProtectionDomain in = domain();
  const auto refused = [&](PoolOptions options, Errc code, const char* field) {
    const auto made = Pool::create(in, options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error(), code) << to_string(made.error());
    EXPECT_STREQ(made.error().field, field);
  };
  refused({.bytes = 0}, Errc::invalid_argument, "bytes");
  refused({.count = 0}, Errc::invalid_argument, "count");
  refused({.bytes = SIZE_MAX}, Errc::limit_exceeded, "bytes");
  refused({.bytes = std::size_t{1} << 30, .count = UINT32_MAX}, Errc::limit_exceeded, "count");
}

TEST_F(PoolTest, SeveralSizesGiveTheSmallestThatHoldsIt) {
  Pools pools = require(Pools::create(
      domain(),
      {{.bytes = 4096, .count = 2}, {.bytes = 256, .count = 2}, {.bytes = 384, .count = 1}}));
  const auto size = [&](std::size_t bytes) { return pools.try_take(bytes).size(); };
  EXPECT_EQ(size(0), 256u);
  EXPECT_EQ(size(1), 256u);
  EXPECT_EQ(size(256), 256u);
  EXPECT_EQ(size(257), 384u);
  EXPECT_EQ(size(384), 384u);
  EXPECT_EQ(size(385), 4096u);
  EXPECT_EQ(size(4096), 4096u);
  EXPECT_EQ(size(4097), 0u);
  EXPECT_EQ(size(SIZE_MAX), 0u);
  const Buffer only = pools.try_take(300);
  EXPECT_FALSE(pools.try_take(300)) << "a larger one was taken instead";
  EXPECT_EQ(pools.take(300, 0s).error(), Errc::timed_out);
  const auto none = pools.take(5000);
  EXPECT_EQ(none.error(), Errc::limit_exceeded);
  EXPECT_EQ(none.error().limit, 4096u);
  EXPECT_EQ(require(pools.take(1)).size(), 256u);
}

TEST_F(PoolTest, SeveralSizesMustDiffer) {
  const ProtectionDomain in = domain();
  EXPECT_EQ(Pools::create(in, {}).error(), Errc::invalid_argument);
  const auto twice = Pools::create(in, {{.bytes = 64}, {.bytes = 64}});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().value, 64u);
}

#if VERBATIM_ASAN
TEST_F(PoolTest, AddressSanitizerFindsBytesUsedAfterTheDrop) {
  Pool pool = make({.bytes = 64, .count = 1});
  std::optional buffer{pool.try_take()};
  std::byte* const kept = buffer->bytes().data();
  buffer.reset();
  EXPECT_DEATH(*const_cast<volatile std::byte*>(kept) = std::byte{1}, "use-after-poison");
}
#endif

}  // namespace
}  // namespace verbatim::test
