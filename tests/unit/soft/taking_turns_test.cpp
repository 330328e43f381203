// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what ends an object waits for the threads that use it, and nobody waits longer than that.
// Method: the test holds a lock, or stands where a peer would stand, and looks who waits.
// Covers: soft/helper.cpp, soft/completion_channel.cpp, soft/registration.cpp
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "soft/completer/poll.hpp"
#include "soft/control/completion_channel.hpp"
#include "soft/memory/registration.hpp"
#include "soft/requester/queue_pair.hpp"
#include "soft/shared/engine.hpp"
#include "support/connected_pair.hpp"

namespace verbatim::engine {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::require;

QueuePair& remote_of(const test::ConnectedPair& pair) {
  return QueuePair::of(unsafe::native(pair.remote.queue_pair));
}

/// A requester that does not leave a queue pair, and is not stopped: this process.
void stay_inside(QueuePair& queue_pair, std::uint32_t key) {
  SharedReceives& receives = queue_pair.shared->receives;
  receives.touching.store(key);
  receives.entered.store(std::uint64_t{1} << 32 | queue_pair.engine->tag());
}

// The helper may look the key up until the last moment, and then copy.
TEST(Deregistering, WaitsForACopyThatTheHelperBeganMeanwhile) {
  const test::ConnectedPair pair;
  QueuePair& inside = remote_of(pair);
  Engine& engine = *inside.engine;
  std::array<std::byte, 64> memory{};
  ibv_mr* const region =
      register_memory(unsafe::native(pair.domain), memory.data(), memory.size(),
                      reinterpret_cast<std::uintptr_t>(memory.data()), IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(region, nullptr);
  const Word& key = engine.segment().regions[region->handle].key;
  stay_inside(inside, region->rkey);
  std::atomic<bool> is_over{false};
  int result = -1;
  std::jthread ending{[&] {
    result = deregister_memory(region);
    is_over = true;
  }};
  EXPECT_TRUE(eventually([&] { return key.load() == 0; }));
  std::this_thread::sleep_for(20ms);  // wait: it may have looked for a copy already
  {
    const std::lock_guard copying{engine.relay_lock};
    inside.shared->receives.entered.store(0);
    EXPECT_FALSE(eventually([&] { return is_over.load(); }, 100ms));
  }
  ending.join();
  EXPECT_EQ(result, 0);
}

// Otherwise the queue could end between the look at it and the count.
TEST(CompletionEvent, IsNotTakenWhileAQueueEnds) {
  test::ConnectedPair pair{{.channels = true}};
  CompletionQueue& queue = CompletionQueue::of(unsafe::native(pair.local.sends));
  EXPECT_EQ(arm(queue.handle(), 0), 0);
  pair.remote.post(Receive{}, 2);
  pair.local.post(Send{}, 1);
  std::jthread taker;
  {
    const std::lock_guard ending{queue.engine->lifetime};
    taker = std::jthread{[&] {
      ibv_cq* named = nullptr;
      void* user = nullptr;
      EXPECT_EQ(get_completion_event(queue.raw.channel, &named, &user), 0);
      acknowledge_completion_events(named, 1);
    }};
    EXPECT_FALSE(eventually([&] { return queue.delivered.load() != 0; }, 100ms));
  }
  taker.join();
  EXPECT_EQ(queue.delivered.load(), 1u);
}

// Eight threads that poll without end share the lock at every moment.
TEST(Progress, OfThreadsThatPollWaitsForOneThatEndsAnObject) {
  const test::ConnectedPair pair;
  Engine& engine = *remote_of(pair).engine;
  ASSERT_FALSE(engine.has_helper()) << "it would do the work";
  std::jthread ending;
  {
    const std::shared_lock polling{engine.lifetime};
    ending = std::jthread{[&] { const std::lock_guard alone{engine.lifetime}; }};
    EXPECT_TRUE(eventually([&] { return engine.lifetime.is_wanted(); }));
    engine.segment().attention.store(1);
    std::jthread{[&] { engine.progress(); }}.join();
    EXPECT_EQ(engine.segment().attention.load(), 1u) << "it got in before the other";
  }
  ending.join();
  engine.progress();
  EXPECT_EQ(engine.segment().attention.load(), 0u);
}

// The thread that breaks queue pairs answers all other peers, too.
TEST(Progress, IsNotHeldUpByRequestersWhoStayInside) {
  std::array<test::ConnectedPair, 6> pairs;
  std::array<std::byte, 64> memory{};
  std::vector<MemoryRegion> regions;
  for (test::ConnectedPair& pair : pairs) {
    const MemoryRegion& region = regions.emplace_back(require(pair.domain.register_local(memory)));
    pair.remote.post(Receive{region.scatter(memory)}, 7);
    QueuePair& inside = remote_of(pair);
    stay_inside(inside, unsafe::native(region)->lkey);
    inside.shared->receives.fault.store(IBV_WC_REM_ACCESS_ERR);
  }
  Engine& engine = *remote_of(pairs[0]).engine;
  engine.segment().attention.store(1);
  const auto start = std::chrono::steady_clock::now();
  engine.progress();
  // Even a short wait yields the processor 200 times, each time for a turn of another program.
  EXPECT_LT(std::chrono::steady_clock::now() - start, 9s) << "each may take two";
  for (test::ConnectedPair& pair : pairs) {
    EXPECT_FALSE(test::poll_within(pair.remote.receives, 1ms)) << "its receive is in use";
    remote_of(pair).shared->receives.entered.store(0);
    const Completion flushed = test::poll_one(pair.remote.receives);
    EXPECT_EQ(flushed.id(), WrId{7});
    EXPECT_EQ(flushed.status(), WorkStatus::flushed);
  }
}

}  // namespace
}  // namespace verbatim::engine
