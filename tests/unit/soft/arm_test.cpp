// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion queue that is armed for any completion stays so until the event, whatever else
//       arms it; and what came before the arming raises its event, too.
// Method: one thread arms for any completion, another for solicited ones, at the same time; a queue
//         is armed after a completion, without polling.
// Covers: soft/poll.cpp
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <shared_mutex>
#include <string>
#include <thread>

#include "soft/completer/completion_queue.hpp"
#include "soft/completer/poll.hpp"
#include "soft/completer/shared_ring.hpp"
#include "soft/control/completion_channel.hpp"
#include "soft/control/completion_queue.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/spin.hpp"
#include "support/connected_pair.hpp"
#include "support/device_under_test.hpp"
#include "verbatim/soft/soft_device.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::engine {
namespace {

class ArmTest : public testing::Test {
 protected:
  ~ArmTest() override { EXPECT_EQ(destroy_completion_queue(queue), 0); }

  verbatim::Context opened = test::open_context();
  ibv_cq* queue = create_completion_queue(unsafe::native(opened), 16, nullptr, nullptr, 0);
  Word& armed = CompletionQueue::of(queue).shared->armed;
};

TEST_F(ArmTest, ArmingForSolicitedCompletionsUndoesNothing) {
  EXPECT_EQ(arm(queue, 1), 0);
  EXPECT_EQ(armed.load(), solicited_only);
  EXPECT_EQ(arm(queue, 0), 0);
  EXPECT_EQ(armed.load(), any);
  EXPECT_EQ(arm(queue, 1), 0);
  EXPECT_EQ(armed.load(), any);
}

TEST_F(ArmTest, ArmingForSolicitedCompletionsUndoesNothingInAnotherThread) {
  constexpr int kRounds = 30'000;
  std::atomic<int> begun{0};
  std::atomic<int> done{0};
  const std::jthread other{[&] {
    for (int round = 1; round <= kRounds; ++round) {
      for (Backoff backoff; begun.load() < round;) backoff.wait();
      arm(queue, 1);
      done.store(round);
    }
  }};
  int lost = 0;
  // Hand-offs are slow where the threads share a processor.
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  for (int round = 1; round <= kRounds && std::chrono::steady_clock::now() < enough; ++round) {
    armed.store(no);
    begun.store(round);
    for (int pause = round % 64; pause > 0; --pause)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    arm(queue, 0);
    for (Backoff backoff; done.load() < round;) backoff.wait();
    if (armed.load() != any) ++lost;
  }
  begun.store(kRounds);  // The other thread ends.
  EXPECT_EQ(lost, 0);
}

// Hardware raises an event for what is in the queue, too, and UCX relies on it.
TEST(Arming, OfAQueueThatHoldsACompletionRaisesItsEventOnce) {
  test::ConnectedPair pair{{.channels = true}};
  ibv_cq* const sends = unsafe::native(pair.local.sends);
  const auto is_readable = [sends] {
    pollfd entry{.fd = sends->channel->fd, .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
  };
  Buffer source = test::require(pair.domain.allocate(64));
  Buffer target = test::require(pair.domain.allocate(64));
  pair.remote.post(Receive{target.scatter()}, 2);
  pair.local.post(Send{source.gather()}, 1);
  EXPECT_FALSE(is_readable()) << "it was not armed";
  EXPECT_EQ(arm(sends, 0), 0);
  EXPECT_TRUE(is_readable());
  EXPECT_EQ(CompletionQueue::of(sends).shared->armed.load(), no);
  test::poll_ok(pair.local.sends);
  ibv_cq* named = nullptr;
  void* user = nullptr;
  ASSERT_EQ(get_completion_event(sends->channel, &named, &user), 0);
  EXPECT_EQ(named, sends);
  acknowledge_completion_events(named, 1);
  EXPECT_FALSE(is_readable());
  EXPECT_EQ(arm(sends, 0), 0);
  EXPECT_FALSE(is_readable()) << "everything was polled";
}

/// Whether the channel of the queue holds an event. If so, takes it.
bool takes_event(ibv_cq* queue) {
  pollfd entry{.fd = queue->channel->fd, .events = POLLIN, .revents = 0};
  if (::poll(&entry, 1, 0) != 1) return false;
  ibv_cq* named = nullptr;
  void* user = nullptr;
  if (get_completion_event(queue->channel, &named, &user) != 0) return false;
  acknowledge_completion_events(named, 1);
  return named == queue;
}

// UCX does not poll between arming and sleeping.
TEST(Arming, FindsAMessageThatAnotherThreadMovesAtThisMoment) {
  test::ConnectedPair pair{{.channels = true}};
  ibv_cq* const receives = unsafe::native(pair.remote.receives);
  Engine& engine = *CompletionQueue::of(receives).engine;
  std::atomic<bool> over{false};
  std::jthread mover{[&] {
    while (!over) {
      const std::shared_lock alive{engine.lifetime};
      engine.settle();
    }
  }};
  bool found = true;
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds{3};
  for (int round = 0; found && round < 100'000; ++round) {
    if (std::chrono::steady_clock::now() > enough) break;
    pair.remote.post(Receive{}, 1);
    pair.local.post(Send{}, 1);
    EXPECT_EQ(arm(receives, 0), 0);
    found = takes_event(receives);
    test::poll_ok(pair.local.sends);
    test::poll_ok(pair.remote.receives);
  }
  over = true;
  EXPECT_TRUE(found) << "the message was there before the arming";
}

/// What a producer leaves that was killed, or is stopped, after it has written its completion.
class OwedEvent : public testing::TestWithParam<Armed> {};

TEST_P(OwedEvent, ComesAllTheSame) {
  test::ConnectedPair pair{{.channels = true}};
  ibv_cq* const receives = unsafe::native(pair.remote.receives);
  CompletionQueue& queue = CompletionQueue::of(receives);
  queue.engine->start_helper();  // It runs wherever there are producers of other processes.
  pair.remote.post(Receive{}, 1);
  pair.local.post(Send{}, 1);
  EXPECT_FALSE(takes_event(receives)) << "it was not armed";
  queue.shared->armed.store(GetParam());
  EXPECT_TRUE(test::eventually([&] { return takes_event(receives); }));
  // The helper disarms the queue after it has written the event.
  EXPECT_TRUE(test::eventually([&] { return queue.shared->armed.load() == no; }));
  test::poll_ok(pair.remote.receives);
}

INSTANTIATE_TEST_SUITE_P(Producers, OwedEvent, testing::Values(any, telling),
                         [](const auto& each) -> std::string {
                           return each.param == any ? "BeforeItLooked" : "BeforeItWrote";
                         });

TEST_F(ArmTest, ArmingWhileAProducerWritesAnEventCountsForTheNextOne) {
  armed.store(telling);
  EXPECT_EQ(arm(queue, 1), 0);
  EXPECT_EQ(armed.load(), solicited_only);
}

// In deferred mode a program has to cope with what the verbs promise.
TEST(Arming, InDeferredModeIsForLaterCompletionsOnly) {
  test::ConnectedPair pair{{.channels = true}};
  ibv_cq* const sends = unsafe::native(pair.local.sends);
  Buffer memory = test::require(pair.domain.allocate(64));
  pair.remote.post(Receive{memory.scatter(32, 32)}, 2);
  pair.local.post(Send{memory.gather(0, 32)}, 1);
  soft::set_behaviour({.mode = soft::Mode::deferred});
  EXPECT_EQ(arm(sends, 0), 0);
  // Before the mode ends: from then on the event is owed, and a helper may write it.
  EXPECT_EQ(CompletionQueue::of(sends).shared->armed.load(), any);
  soft::set_behaviour({});
}

}  // namespace
}  // namespace verbatim::engine
