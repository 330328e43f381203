// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one thread at a time holds the lock, even while it is taken away from its owner; try_lock
//       never waits.
// Method: threads that count under the lock, one of which owns it; an owner that stays inside until
//         the test has tried.
#include "soft/shared/biased_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>

#include "base/relax_processor.hpp"

namespace verbatim::engine {
namespace {

/// Adds one under the lock, like post_send().
void add_one(BiasedLock& lock, std::uint64_t& count) {
  if (lock.try_lock_as_owner()) {
    ++count;
    lock.unlock_as_owner();
    return;
  }
  lock.lock_and_own();
  ++count;
  lock.unlock();
}

TEST(BiasedLock, FirstWhoTakesItThatWayOwnsIt) {
  BiasedLock lock;
  EXPECT_FALSE(lock.try_lock_as_owner());
  lock.lock_and_own();
  lock.unlock();
#if VERBATIM_TSAN
  EXPECT_FALSE(lock.try_lock_as_owner()) << "ThreadSanitizer does not know how it works";
#else
  ASSERT_TRUE(lock.try_lock_as_owner());
  lock.unlock_as_owner();
#endif
}

TEST(BiasedLock, WhoOnlyLocksItDoesNotOwnIt) {
  BiasedLock lock;
  lock.lock();
  lock.unlock();
  ASSERT_TRUE(lock.try_lock());
  lock.unlock();
  EXPECT_FALSE(lock.try_lock_as_owner());
}

TEST(BiasedLock, OwnerDoesNotEnterTwice) {
  BiasedLock lock;
  lock.lock_and_own();
  lock.unlock();
  lock.lock();
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(BiasedLock, WhoTriesDoesNotWaitForTheOwner) {
  BiasedLock lock;
  std::latch inside{1};
  std::latch tried{1};
  std::thread owner{[&] {
    lock.lock_and_own();
    lock.unlock();
    const std::lock_guard hold{lock};
    inside.count_down();
    tried.wait();
  }};
  inside.wait();
  EXPECT_FALSE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock()) << "it is taken away by now, and still held";
  tried.count_down();
  owner.join();
  ASSERT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(BiasedLock, OwnerComesBackAfterItWasTakenAway) {
  BiasedLock lock;
  std::latch owned{1};
  std::latch taken{1};
  std::uint64_t count = 0;
  std::thread owner{[&] {
    add_one(lock, count);
    owned.count_down();
    taken.wait();
    EXPECT_FALSE(lock.try_lock_as_owner());
    add_one(lock, count);
  }};
  owned.wait();
  lock.lock();
  ++count;
  lock.unlock();
  taken.count_down();
  owner.join();
  EXPECT_EQ(count, 3u);
}

/// Counts the visitors that were not alone inside.
struct Room {
  void visit() noexcept {
    if (visitors.fetch_add(1) != 0) met.fetch_add(1);
    for (int i = 0; i < 10; ++i) relax_processor();
    visitors.fetch_sub(1);
  }
  std::atomic<int> visitors{0};
  std::atomic<int> met{0};
};

// Each round has a new lock, so that it is taken away often.
TEST(BiasedLock, NobodyIsInsideTwiceWhileItIsTakenAway) {
  constexpr int kRounds = 500;
  Room room;
  for (int round = 0; round < kRounds; ++round) {
    BiasedLock lock;
    std::atomic<bool> owned = false;
    std::atomic<bool> over = false;
    std::thread owner{[&] {
      lock.lock_and_own();
      lock.unlock();
      owned = true;
      while (!over.load(std::memory_order_relaxed)) {
        if (!lock.try_lock_as_owner()) return;
        room.visit();
        lock.unlock_as_owner();
      }
    }};
    while (!owned) std::this_thread::yield();
    for (int i = 0; i < round % 64; ++i) relax_processor();
    lock.lock();
    room.visit();
    lock.unlock();
    over = true;
    owner.join();
  }
  EXPECT_EQ(room.met, 0);
}

}  // namespace
}  // namespace verbatim::engine
