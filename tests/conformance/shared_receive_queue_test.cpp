// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: queue pairs share receives; running low is reported once per arming; a broken queue pair
//       takes no receive with it.
// Method: two connections into one shared receive queue, with events read by hand.
// Covers: soft/receive_ring.cpp, soft/shared_receive_queue.cpp
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "support/raw_verbs.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {
namespace {

/// A shared receive queue and two connections whose remote sides receive from it.
struct SharedReceivers {
  explicit SharedReceivers(std::uint32_t requests = 16)
      : domain(require(open_context({.events = EventDelivery::manual}).allocate_domain())),
        queue(require(domain.create_shared_receive_queue({.max_requests = requests}))) {}

  [[nodiscard]] PairOptions options() const {
    return {.remote = [this](QueuePairOptions& each) {
      each.shared_receive_queue = queue;
      each.max_receive_requests.reset();
    }};
  }
  void post(std::uint64_t id) { require(unsafe::post(queue, Receive{}, WrId{id})); }
  /// Whether the event has been seen by now.
  [[nodiscard]] bool has(EventType type) {
    require(domain.context().dispatch_events());
    return queue.events().has(type);
  }

  ProtectionDomain domain;
  SharedReceiveQueue queue;
};

class SharedReceive : public testing::Test {
  void SetUp() override {
    if (!capabilities().shared_receive_queue)
      GTEST_SKIP() << "the device has no shared receive queues";
  }
};

constexpr EventType kLimitReached = EventType::shared_receive_queue_limit_reached;

TEST_F(SharedReceive, ServesTwoQueuePairs) {
  SharedReceivers receivers;
  ConnectedPair first(receivers.domain, receivers.options());
  ConnectedPair second(receivers.domain, receivers.options());
  ConnectedPair* const pairs[] = {&first, &second};
  Buffer sink = require(receivers.domain.allocate(8 * 100));
  Buffer source = require(receivers.domain.allocate(100));
  for (std::uint64_t id = 0; id < 8; ++id)
    require(unsafe::post(receivers.queue, Receive{sink.scatter(id * 100, 100)}, WrId{id}));
  for (std::uint64_t turn = 0; turn < 8; ++turn) {
    ConnectedPair& pair = *pairs[turn % 2];
    fill(source.bytes(), test_seed() + turn);
    pair.local.post(Send{source.gather()}, turn);
    poll_ok(pair.local.sends);
    const Completion received = poll_ok(pair.remote.receives);
    // Receives are taken in the order in which they were posted, by any queue pair that needs one.
    EXPECT_EQ(received.id(), WrId{turn});
    EXPECT_EQ(received.queue_pair(), pair.remote.queue_pair.number());
    EXPECT_EQ(received.byte_count(), 100u);
    EXPECT_TRUE(holds(sink.bytes().subspan(turn * 100, 100), test_seed() + turn));
  }
}

// Queue pairs return receives in any order, and each receive that came back makes room for another.
TEST_F(SharedReceive, HasRoomAgainWhicheverReceiveCameBack) {
  SharedReceivers receivers{4};
  ConnectedPair slow(receivers.domain, receivers.options());
  ConnectedPair quick(receivers.domain, receivers.options());
  const std::uint64_t depth = receivers.queue.max_requests();
  for (std::uint64_t id = 0; id < depth; ++id) receivers.post(id);
  slow.local.post(send_immediate(7), 1);  // It takes the first, and does not poll for a long time.
  poll_ok(slow.local.sends);
  std::uint64_t next = depth;
  for (std::uint64_t turn = 1; turn <= 5 * depth; ++turn) {
    quick.local.post(send_immediate(static_cast<std::uint32_t>(turn)), turn);
    poll_ok(quick.local.sends);
    const Completion received = poll_ok(quick.remote.receives);
    EXPECT_EQ(received.id(), WrId{turn}) << "in the order in which they were posted";
    EXPECT_EQ(received.immediate(), turn);
    receivers.post(next++);
  }
  const Completion late = poll_ok(slow.remote.receives);
  EXPECT_EQ(late.id(), WrId{0});
  EXPECT_EQ(late.immediate(), 7u);
}

TEST_F(SharedReceive, TakesWriteWithImmediate) {
  SharedReceivers receivers;
  ConnectedPair pair(receivers.domain, receivers.options());
  ExposedMemory target(receivers.domain, 100, Access::remote_write);
  Buffer source = require(receivers.domain.allocate(100));
  fill(source.bytes(), test_seed());
  receivers.post(1);
  pair.local.post(Write{source.gather(), target.remote(), {.immediate = 3}}, 2);
  EXPECT_EQ(poll_ok(pair.remote.receives).immediate(), 3u);
  EXPECT_TRUE(target.holds(test_seed()));
}

TEST_F(SharedReceive, ThatIsEmptyHoldsUpTheSender) {
  SharedReceivers receivers;
  ConnectedPair pair(receivers.domain, receivers.options());
  pair.local.post(Send{}, 1);
  EXPECT_FALSE(poll_within(pair.local.sends, std::chrono::milliseconds{50}));
  receivers.post(2);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  EXPECT_TRUE(succeeded(poll_one(pair.remote.receives)));
}

TEST_F(SharedReceive, ThatIsFullSaysSo) {
  SharedReceivers receivers;
  std::uint64_t taken = 0;
  for (; taken < 10'000; ++taken) {
    const auto result = unsafe::post(receivers.queue, Receive{}, WrId{taken});
    if (result) continue;
    EXPECT_EQ(result.error(), Errc::would_block) << to_string(result.error());
    break;
  }
  EXPECT_GE(taken, receivers.queue.max_requests());
  EXPECT_LT(taken, 10'000u);
}

TEST_F(SharedReceive, BatchIsTakenInPartWhenItIsFull) {
  SharedReceivers receivers;
  constexpr std::size_t kBatch = 200;
  unsafe::ReceiveBatch<kBatch, 1> batch;
  for (std::uint64_t id = 0; id < kBatch; ++id) require(batch.add(Receive{}, WrId{id}));
  const unsafe::Posted posted = batch.post(receivers.queue);
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error->code, Errc::would_block);
  EXPECT_GE(posted.accepted, receivers.queue.max_requests());
}

TEST_F(SharedReceive, TellsOnceThatItRunsLow) {
  SharedReceivers receivers;
  ConnectedPair pair(receivers.domain, receivers.options());
  const auto receive_one = [&] {
    pair.local.post(Send{}, 1);
    poll_ok(pair.local.sends);
    poll_ok(pair.remote.receives);
  };
  for (std::uint64_t id = 0; id < 8; ++id) receivers.post(id);
  require(receivers.queue.arm_limit(4));
  EXPECT_EQ(require(receivers.queue.limit()), 4u);
  for (int i = 0; i < 4; ++i) receive_one();
  EXPECT_FALSE(receivers.has(kLimitReached)) << "four are left, which is not fewer than four";
  receive_one();
  EXPECT_TRUE(eventually([&] { return receivers.has(kLimitReached); }));
  EXPECT_EQ(require(receivers.queue.limit()), 0u) << "the event disarms the limit";
}

// A receive that did not come back for a long time does not count as one that is left.
TEST_F(SharedReceive, TellsThatItRunsLowWhicheverReceiveCameBack) {
  SharedReceivers receivers{16};
  ConnectedPair slow(receivers.domain, receivers.options());
  ConnectedPair quick(receivers.domain, receivers.options());
  for (std::uint64_t id = 0; id < 16; ++id) receivers.post(id);
  for (std::uint64_t id = 0; id < 8; ++id) {
    slow.local.post(Send{}, id);
    poll_ok(slow.local.sends);
  }
  const auto receive_one = [&] {
    quick.local.post(Send{}, 1);
    poll_ok(quick.local.sends);
    poll_ok(quick.remote.receives);
  };
  for (std::uint64_t round = 0; round < 17; ++round) {
    receive_one();
    receivers.post(16 + round);
  }
  require(receivers.queue.arm_limit(4));
  for (int i = 0; i < 4; ++i) receive_one();
  EXPECT_FALSE(receivers.has(kLimitReached)) << "four are left, which is not fewer than four";
  receive_one();
  EXPECT_TRUE(eventually([&] { return receivers.has(kLimitReached); })) << "three are left";
}

TEST_F(SharedReceive, LimitAboveItsSizeIsRefused) {
  SharedReceivers receivers;
  const std::uint32_t most = receivers.queue.max_requests();
  const auto result = receivers.queue.arm_limit(most + 1);
  ASSERT_TRUE(fails_with(result, Errc::limit_exceeded));
  EXPECT_EQ(result.error().value, most + 1);
  EXPECT_EQ(result.error().limit, most);
  EXPECT_EQ(require(receivers.queue.limit()), 0u);
}

TEST_F(SharedReceive, OutsideTheDevicesLimitsIsRefused) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const Capabilities& device = capabilities();
  const auto many =
      domain.create_shared_receive_queue({.max_requests = device.max_shared_receive_requests + 1});
  ASSERT_TRUE(fails_with(many, Errc::limit_exceeded));
  EXPECT_EQ(many.error().limit, device.max_shared_receive_requests);
  const auto wide = domain.create_shared_receive_queue(
      {.max_requests = 16, .max_elements = device.max_shared_receive_elements + 1});
  ASSERT_TRUE(fails_with(wide, Errc::limit_exceeded));
  EXPECT_EQ(wide.error().limit, device.max_shared_receive_elements);
}

TEST_F(SharedReceive, OutlivesAQueuePairThatBreaks) {
  SharedReceivers receivers;
  ConnectedPair broken(receivers.domain, receivers.options());
  ConnectedPair sound(receivers.domain, receivers.options());
  for (std::uint64_t id = 0; id < 4; ++id) receivers.post(id);
  require(broken.remote.queue_pair.move_to_error());
  for (std::uint64_t id = 0; id < 4; ++id) {
    sound.local.post(Send{}, id);
    EXPECT_TRUE(succeeded_in_order({poll_one(sound.remote.receives)}, id));
  }
  EXPECT_FALSE(poll_within(broken.remote.receives, std::chrono::milliseconds{50}))
      << "the receives belong to the shared queue";
}

TEST_F(SharedReceive, TellsWhenABrokenQueuePairHasTakenItsLast) {
  SharedReceivers receivers;
  ConnectedPair pair(receivers.domain, receivers.options());
  receivers.post(1);
  require(pair.remote.queue_pair.move_to_error());
  EXPECT_TRUE(eventually(
      [&] {
        require(receivers.domain.context().dispatch_events());
        return pair.remote.queue_pair.events().has(EventType::last_receive_reached);
      },
      std::chrono::seconds{5}))
      << "no event last_receive_reached";
}

// Many programs move a queue pair to the error state that is there already.
TEST_F(SharedReceive, TellsAtMostOnceThatABrokenQueuePairHasTakenItsLast) {
  const raw::Owned<ibv_context> context = raw::open();
  const raw::Owned<ibv_pd> domain = raw::domain(context.get());
  const raw::Owned<ibv_cq> queue = raw::completion_queue(context.get());
  const raw::Owned<ibv_srq> shared = raw::shared_receive_queue(domain.get());
  const raw::QueuePairRecipe recipe{.domain = domain.get(),
                                    .sends = queue.get(),
                                    .receives = queue.get(),
                                    .shared = shared.get()};
  const raw::Owned<ibv_qp> left = raw::queue_pair(recipe);
  const raw::Owned<ibv_qp> right = raw::queue_pair(recipe);
  raw::connect(left.get(), right.get());
  const raw::Mapping memory{64};
  const raw::Piece unregistered{.address = reinterpret_cast<std::uintptr_t>(memory.bytes().data()),
                                .bytes = 64,
                                .key = 0x7fff0001};
  ASSERT_EQ(raw::post_send(left.get(), 1, unregistered), 0);
  EXPECT_NE(raw::poll_one(queue.get()).status, IBV_WC_SUCCESS);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(raw::change_state(left.get(), IBV_QPS_ERR), 0);
  int told = 0;
  while (raw::is_readable(context->async_fd, std::chrono::milliseconds{100})) {
    ibv_async_event event{};
    ASSERT_EQ(raw::verbs().get_async_event(context.get(), &event), 0);
    told += event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED ? 1 : 0;
    raw::verbs().ack_async_event(&event);
  }
  EXPECT_LE(told, 1);
}

TEST_F(SharedReceive, RoomIsReservedOncePerCompletionQueue) {
  SharedReceivers receivers;
  const CompletionQueue sends = completion_queue(receivers.domain.context());
  const CompletionQueue receives = completion_queue(receivers.domain.context());
  QueuePairOptions options = queue_pair_options(receivers.domain, sends, receives);
  receivers.options().remote(options);
  std::optional<PreparedQueuePair> first = require(QueuePair::prepare(options));
  EXPECT_EQ(receives.reserved(), receivers.queue.max_requests());
  std::optional<PreparedQueuePair> second = require(QueuePair::prepare(options));
  EXPECT_EQ(receives.reserved(), receivers.queue.max_requests());
  first.reset();
  EXPECT_EQ(receives.reserved(), receivers.queue.max_requests());
  second.reset();
  EXPECT_EQ(receives.reserved(), 0u);
}

}  // namespace
}  // namespace verbatim::test
