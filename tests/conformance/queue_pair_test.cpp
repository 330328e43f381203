// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a queue pair is as large as requested, or there is an error with the numbers; a full queue
//       is reported; a completion queue has room for everything that may complete into it.
// Method: ask for the limits and one more; fill queues whose peer takes nothing.
// Covers: soft/queue_pair.cpp
#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

#include "support/connected_pair.hpp"

namespace verbatim::test {
namespace {

constexpr std::uint64_t kEnough = 100'000;  ///< More requests than any queue of a test has.

/// The objects that a queue pair is made from.
struct Bench {
  ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue queue = completion_queue(domain.context(), 512);
  QueuePairOptions options = queue_pair_options(domain, queue, queue);
};

TEST(QueuePair, IsAtLeastAsLargeAsAsked) {
  Bench bench;
  bench.options.max_send_requests = 33;
  bench.options.max_receive_requests = 17;
  bench.options.max_send_elements = std::min(3u, capabilities().max_elements);
  bench.options.max_receive_elements = std::min(2u, capabilities().max_elements);
  bench.options.max_inline_bytes = 32;
  const PreparedQueuePair prepared = require(QueuePair::prepare(bench.options));
  const QueuePairLimits& made = prepared.limits();
  EXPECT_GE(made.max_send_requests, 33u);
  EXPECT_GE(made.max_receive_requests, 17u);
  EXPECT_GE(made.max_send_elements, *bench.options.max_send_elements);
  EXPECT_GE(made.max_receive_elements, *bench.options.max_receive_elements);
  EXPECT_GE(made.max_inline_bytes, 32u);
  EXPECT_EQ(made.max_message_bytes,
            require(bench.domain.context().first_active_port()).max_message_bytes);
}

TEST(QueuePair, GoesThroughItsStates) {
  ConnectedPair pair;
  EXPECT_EQ(require(pair.local.queue_pair.query_state()), QueuePairState::ready_to_send);
  EXPECT_EQ(pair.local.queue_pair.type(), QueuePairType::reliable_connection);
  EXPECT_EQ(pair.local.queue_pair.domain(), pair.domain);
  EXPECT_NE(pair.local.queue_pair.number(), pair.remote.queue_pair.number());
  EXPECT_TRUE(pair.local.queue_pair.events().without(EventType::communication_established).empty());
}

testing::AssertionResult refuses(const QueuePairOptions& options, std::string_view field,
                                 std::uint64_t value, std::uint64_t limit) {
  const auto result = QueuePair::prepare(options);
  if (auto right = fails_with(result, Errc::limit_exceeded); !right) return right;
  const Error& error = result.error();
  if (error.field == field && error.value == value && error.limit == limit)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_string(error);
}

TEST(QueuePair, AboveTheDevicesLimitsIsRefusedWithTheNumbers) {
  const Capabilities& device = capabilities();
  const std::uint32_t requests = device.max_requests + 1;
  const std::uint32_t elements = device.max_elements + 1;
  const auto with = [](auto change) {
    Bench bench;
    change(bench.options);
    return bench.options;
  };
  EXPECT_TRUE(refuses(with([=](auto& options) { options.max_send_requests = requests; }),
                      "max_send_requests", requests, device.max_requests));
  EXPECT_TRUE(refuses(with([=](auto& options) { options.max_receive_requests = requests; }),
                      "max_receive_requests", requests, device.max_requests));
  EXPECT_TRUE(refuses(with([=](auto& options) { options.max_send_elements = elements; }),
                      "max_send_elements", elements, device.max_elements));
  EXPECT_TRUE(refuses(with([=](auto& options) { options.max_receive_elements = elements; }),
                      "max_receive_elements", elements, device.max_elements));
}

TEST(QueuePair, AboveTheDevicesReadLimitIsRefusedWithTheNumbers) {
  const std::uint32_t limit =
      std::min(capabilities().max_read_atomic_initiator, capabilities().max_read_atomic_responder);
  if (limit >= 255) GTEST_SKIP() << "the device takes whatever the wire can say";
  Bench bench;
  bench.options.max_read_atomic = static_cast<std::uint8_t>(limit + 1);
  EXPECT_TRUE(refuses(bench.options, "max_read_atomic", limit + 1, limit));
  bench.options.max_read_atomic = static_cast<std::uint8_t>(limit);
  EXPECT_TRUE(succeeds(QueuePair::prepare(bench.options)));
}

TEST(QueuePair, WithMoreInlineThanTheDeviceHasIsRefused) {
  Bench bench;
  bench.options.max_inline_bytes = 1u << 30;
  const auto result = QueuePair::prepare(bench.options);
  ASSERT_TRUE(fails_with(result, Errc::limit_exceeded));
  EXPECT_STREQ(result.error().field, "max_inline_bytes");
  EXPECT_EQ(result.error().value, 1u << 30);
}

TEST(QueuePair, OnAPortThatDoesNotExistIsRefused) {
  Bench bench;
  const auto beyond = static_cast<std::uint8_t>(capabilities().port_count + 1);
  bench.options.route.port = beyond;
  const auto result = QueuePair::prepare(bench.options);
  ASSERT_TRUE(fails_with(result, Errc::not_found));
  EXPECT_EQ(result.error().value, beyond);
}

TEST(QueuePair, WithAnAddressThatIsNotInTheTableIsRefused) {
  Bench bench;
  const std::uint32_t count = require(bench.domain.context().first_active_port()).gid_count;
  bench.options.route.gid_index = count;
  const auto result = QueuePair::prepare(bench.options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().value, count);
}

TEST(QueuePair, InAPartitionThatIsNotThePortsIsRefused) {
  Bench bench;
  bench.options.route.partition_key = PartitionKey{0x9234};
  const auto result = QueuePair::prepare(bench.options);
  ASSERT_TRUE(fails_with(result, Errc::not_found));
  EXPECT_EQ(result.error().value, 0x9234u);
}

/// Posts until the queue is full. Returns how many requests it took.
template <class Queue, class Work>
std::uint64_t fill_queue(Queue& queue, const Work& work) {
  for (std::uint64_t count = 0; count < kEnough; ++count) {
    const auto result = unsafe::post(queue, work, WrId{count});
    if (result) continue;
    EXPECT_EQ(result.error(), Errc::would_block) << to_string(result.error());
    return count;
  }
  ADD_FAILURE() << "the queue never got full";
  return kEnough;
}

TEST(SendQueue, ThatIsFullSaysSoAndRecovers) {
  ConnectedPair pair;
  const std::uint64_t taken = fill_queue(pair.local.queue_pair, Send{});
  EXPECT_GE(taken, pair.local.queue_pair.limits().max_send_requests);
  for (std::uint64_t id = 0; id < taken; ++id) {
    pair.remote.post(Receive{}, id);
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, id));
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.remote.receives)}, id));
  }
  exchange(pair);
}

TEST(ReceiveQueue, ThatIsFullSaysSoAndRecovers) {
  ConnectedPair pair;
  const std::uint64_t taken = fill_queue(pair.remote.queue_pair, Receive{});
  EXPECT_GE(taken, pair.remote.queue_pair.limits().max_receive_requests);
  for (std::uint64_t id = 0; id < taken; ++id) {
    pair.local.post(Send{}, id);
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.remote.receives)}, id));
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, id));
  }
  exchange(pair);
}

TEST(ReceiveQueue, CanBeFilledBeforeTheConnection) {
  Bench bench;
  PreparedQueuePair prepared = require(QueuePair::prepare(bench.options));
  const std::uint64_t taken = fill_queue(prepared, Receive{});
  EXPECT_GE(taken, prepared.limits().max_receive_requests);
  const Endpoint self = prepared.endpoint();
  QueuePair queue_pair = require(std::move(prepared).connect(self));
  require(unsafe::post(queue_pair, send_immediate(5), WrId{kEnough}));
  std::optional<std::uint32_t> immediate;
  for (const Completion& each : poll_many(bench.queue, 2)) {
    EXPECT_TRUE(succeeded(each));
    if (each.id() == WrId{0}) immediate = each.immediate();
  }
  EXPECT_EQ(immediate, 5u);
}

// ---- Room in completion queues ------------------------------------------------------------------

TEST(CompletionRoom, IsReservedByQueuePairsAndGivenBack) {
  Bench bench;
  EXPECT_EQ(bench.queue.reserved(), 0u);
  std::optional<PreparedQueuePair> first = require(QueuePair::prepare(bench.options));
  const QueuePairLimits& limits = first->limits();
  const std::uint32_t each = limits.max_send_requests + limits.max_receive_requests;
  EXPECT_EQ(bench.queue.reserved(), each);
  std::optional<PreparedQueuePair> second = require(QueuePair::prepare(bench.options));
  EXPECT_EQ(bench.queue.reserved(), 2 * each);
  first.reset();
  EXPECT_EQ(bench.queue.reserved(), each);
  second.reset();
  EXPECT_EQ(bench.queue.reserved(), 0u);
}

TEST(CompletionRoom, ThatDoesNotSufficeIsRefusedWithBothNumbers) {
  Bench bench;
  CompletionQueue small = completion_queue(bench.domain.context(), 20);
  bench.options.send_completions = small;
  bench.options.max_send_requests = small.depth() + 1;
  const auto result = QueuePair::prepare(bench.options);
  ASSERT_TRUE(fails_with(result, Errc::limit_exceeded));
  EXPECT_GE(result.error().value, small.depth() + 1);
  EXPECT_EQ(result.error().limit, small.depth());
  EXPECT_EQ(small.reserved(), 0u);
  EXPECT_EQ(bench.queue.reserved(), 0u) << "the other queue's room was not given back";
}

TEST(CompletionRoom, OfADestroyedQueuePairCanBeUsedAgain) {
  Bench bench;
  std::optional<PreparedQueuePair> prepared = require(QueuePair::prepare(bench.options));
  const QueuePairLimits limits = prepared->limits();
  CompletionQueue exact = completion_queue(bench.domain.context(),
                                           limits.max_send_requests + limits.max_receive_requests);
  bench.options.send_completions = exact;
  bench.options.receive_completions = exact;
  for (int round = 0; round < 3; ++round) {
    prepared = require(QueuePair::prepare(bench.options));
    prepared.reset();
    std::array<Completion, 4> none;
    EXPECT_EQ(require(exact.poll(none)), 0u);
  }
}

TEST(CompletionRoom, GrowsWhereTheCallerAllowsIt) {
  if (!capabilities().resize_completion_queue)
    GTEST_SKIP() << "the device cannot resize a completion queue";
  Bench bench;
  CompletionQueue growing = require(bench.domain.context().create_completion_queue(
      {.depth = 8, .growth = CompletionQueueGrowth::resize}));
  bench.options.send_completions = growing;
  bench.options.receive_completions = growing;
  bench.options.max_send_requests = 100;
  bench.options.max_receive_requests = 100;
  const PreparedQueuePair prepared = require(QueuePair::prepare(bench.options));
  EXPECT_GE(growing.reserved(), 200u);
  EXPECT_GE(growing.depth(), growing.reserved());
}

TEST(CompletionQueue, KeepsItsCompletionsWhenResized) {
  if (!capabilities().resize_completion_queue)
    GTEST_SKIP() << "the device cannot resize a completion queue";
  ConnectedPair pair;
  for (std::uint64_t id = 0; id < 10; ++id) {
    pair.remote.post(Receive{}, id);
    pair.local.post(Send{}, id);
    poll_ok(pair.local.sends);
  }
  const std::uint32_t larger = pair.remote.receives.depth() * 2;
  require(pair.remote.receives.resize(larger));
  EXPECT_GE(pair.remote.receives.depth(), larger);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.remote.receives, 10), 0));
  exchange(pair);
}

TEST(CompletionQueue, IsNotResizedBelowWhatIsReserved) {
  Bench bench;
  const PreparedQueuePair prepared = require(QueuePair::prepare(bench.options));
  const std::uint32_t depth = bench.queue.depth();
  const std::uint32_t reserved = bench.queue.reserved();
  const auto result = bench.queue.resize(reserved - 1);
  ASSERT_TRUE(fails_with(result, Errc::busy));
  EXPECT_EQ(result.error().value, reserved - 1);
  EXPECT_EQ(result.error().limit, reserved);
  EXPECT_EQ(bench.queue.depth(), depth);
}

TEST(CompletionQueue, OutsideTheDevicesLimitsIsRefusedWithTheNumbers) {
  const Context context = open_context();
  const std::uint32_t limit = context.capabilities().max_completion_queue_depth;
  const auto deep = context.create_completion_queue({.depth = limit + 1});
  ASSERT_TRUE(fails_with(deep, Errc::limit_exceeded));
  EXPECT_EQ(deep.error().value, limit + 1);
  EXPECT_EQ(deep.error().limit, limit);
  EXPECT_TRUE(fails_with(context.create_completion_queue({.depth = 0}), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(context.create_completion_queue({.depth = 16, .vector = 1'000'000}),
                         Errc::limit_exceeded));
}

TEST(CompletionQueue, IsAtLeastAsDeepAsAsked) {
  const Context context = open_context();
  for (const std::uint32_t depth : {1u, 2u, 100u, 1000u})
    EXPECT_GE(completion_queue(context, depth).depth(), depth);
}

}  // namespace
}  // namespace verbatim::test
