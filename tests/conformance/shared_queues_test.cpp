// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: several threads may post to one queue pair and poll one completion queue at the same time,
//       and nothing is lost, duplicated or out of order.
// Method: threads that share a queue pair and both of its completion queues; each message contains
//         its sender. The lane for ThreadSanitizer runs this, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "support/connected_pair.hpp"

namespace verbatim::test {
namespace {

class SharedQueues : public testing::Test {
 protected:
  static constexpr unsigned kThreads = 3;
  static constexpr unsigned kDepth = 16;
  const unsigned each = 300 * stress_factor();  ///< Messages of one thread.

  /// Runs this many threads of each kind. An exception in one fails the test.
  template <class Body>
  void add(std::vector<std::jthread>& threads, Body body) {
    for (unsigned i = 0; i < kThreads; ++i)
      threads.emplace_back([this, body, i] {
        try {
          body(i);
        } catch (const SetupFailed& failure) {
          stop = true;
          ADD_FAILURE() << failure.what();
        }
      });
  }
  /// Takes a place in a queue that is `kDepth` deep, or waits for one.
  void take_place(std::atomic<int>& places) const {
    for (;;) {
      if (stop) throw SetupFailed("another thread failed");
      int free = places.load();
      if (free > 0 && places.compare_exchange_weak(free, free - 1)) return;
      std::this_thread::yield();
    }
  }
  /// Polls until all threads together have found this many.
  template <class Each>
  void poll_all(CompletionQueue queue, std::atomic<unsigned>& found, unsigned total, Each handle) {
    std::array<Completion, 5> some;
    while (found < total && !stop) {
      const std::size_t count = require(queue.poll(some));
      for (std::size_t i = 0; i < count; ++i) handle(some[i]);
      found += static_cast<unsigned>(count);
      if (count == 0) std::this_thread::yield();
    }
  }

  std::atomic<bool> stop{false};
  ConnectedPair pair;
};

TEST_F(SharedQueues, TakeTheWorkOfManyThreads) {
  const unsigned total = kThreads * each;
  std::atomic<int> sends{kDepth};
  std::atomic<int> receives{0};  // Posted and not used yet.
  std::atomic<unsigned> sent{0};
  std::atomic<unsigned> received{0};
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> arrived(kThreads);  // By sender.

  const auto post_receive = [&] {
    pair.remote.post(Receive{}, 0);
    ++receives;
  };
  for (unsigned i = 0; i < kDepth; ++i) post_receive();
  std::vector<std::jthread> threads;
  add(threads, [&](unsigned sender) {
    for (std::uint32_t i = 0; i < each; ++i) {
      take_place(sends);
      take_place(receives);
      pair.local.post(send_immediate(sender << 24 | i), sender);
    }
  });
  add(threads, [&](unsigned) {
    poll_all(pair.local.sends, sent, total, [&](const Completion& completion) {
      EXPECT_TRUE(succeeded(completion));
      ++sends;
    });
  });
  add(threads, [&](unsigned) {
    poll_all(pair.remote.receives, received, total, [&](const Completion& completion) {
      EXPECT_TRUE(succeeded(completion));
      const std::uint32_t message = completion.immediate().value_or(~0u);
      {
        const std::lock_guard lock{mutex};
        arrived.at(message >> 24).push_back(message & 0xffffff);
      }
      post_receive();
    });
  });
  threads.clear();  // Joins.
  ASSERT_FALSE(stop);
  for (auto& of_one : arrived) {
    ASSERT_EQ(of_one.size(), each);
    // The polling threads overtake each other, but each message must come once.
    std::ranges::sort(of_one);
    for (std::uint32_t i = 0; i < each; ++i) ASSERT_EQ(of_one[i], i);
  }
}

TEST_F(SharedQueues, KeepTheOrderOfEachThread) {
  std::atomic<int> places{kDepth};
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < kDepth; ++i) pair.remote.post(Receive{}, 0);
  add(threads, [&](unsigned sender) {
    for (std::uint32_t i = 0; i < each; ++i) {
      take_place(places);
      pair.local.post(send_immediate(sender << 24 | i), sender);
      static_cast<void>(poll_ok(pair.local.sends));  // Of any thread.
    }
  });
  std::array<std::uint32_t, kThreads> next{};
  for (unsigned i = 0; i < kThreads * each; ++i) {
    const std::uint32_t message = poll_ok(pair.remote.receives).immediate().value_or(~0u);
    ASSERT_LT(message >> 24, kThreads);
    ASSERT_EQ(message & 0xffffff, next[message >> 24]++);
    pair.remote.post(Receive{}, 0);
    ++places;
  }
}

TEST_F(SharedQueues, FlushOnceWhenOneThreadMovesToError) {
  std::atomic<int> posted{0};
  std::vector<std::jthread> threads;
  add(threads, [&](unsigned thread) {
    for (unsigned i = 0; i < kDepth / kThreads; ++i) {
      pair.local.post(Receive{}, thread);
      ++posted;
    }
    if (thread == 0) require(pair.local.queue_pair.move_to_error());
  });
  threads.clear();
  // Some devices (rxe) look for receives to flush only at the transition, so move to ERR once more.
  require(pair.local.queue_pair.move_to_error());
  const auto found = poll_many(pair.local.receives, static_cast<std::size_t>(posted.load()));
  for (const Completion& completion : found) EXPECT_EQ(completion.status(), WorkStatus::flushed);
  std::array<Completion, 1> none;
  EXPECT_EQ(require(pair.local.receives.poll(none)), 0u);
}

}  // namespace
}  // namespace verbatim::test
