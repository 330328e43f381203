// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion queue cannot be too small for what reports to it: room is reserved, returned
//       and resized by exact numbers. A broken queue is reported with the driver's number.
// Method: queue pairs of known depths on the null provider, and a poll verb of the test.
#include "verbatim/verbs/completion_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/named_error.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbs/completion_channel.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

class CompletionQueueTest : public NullDevice {};

TEST_F(CompletionQueueTest, HasTheDepthThatTheDeviceMade) {
  EXPECT_EQ(make_queue(open(), 100).depth(), 100u);
  knobs.extra_depth = 28;
  EXPECT_EQ(make_queue(open(), 100).depth(), 128u);
}

TEST_F(CompletionQueueTest, TellsItsContextAndItself) {
  const Bench bench(open(), 300);
  EXPECT_EQ(bench.queue.context().name(), "null0");
  const auto prepared = require(bench.prepare());
  const std::string text = to_string(bench.queue);
  EXPECT_TRUE(text.starts_with("completion queue ")) << text;
  EXPECT_TRUE(text.ends_with(" on null0, depth " + std::to_string(bench.queue.depth()) + ", " +
                             std::to_string(bench.queue.reserved()) + " reserved"))
      << text;
}

TEST_F(CompletionQueueTest, StartsEmptyAndUnreserved) {
  CompletionQueue queue = make_queue(open());
  std::array<Completion, 4> completions;
  EXPECT_EQ(require(queue.poll(completions)), 0u);
  EXPECT_EQ(queue.reserved(), 0u);
  EXPECT_EQ(queue.events(), EventFlags{});
}

TEST_F(CompletionQueueTest, DepthMustBePossible) {
  knobs.device.max_cqe = 1000;
  const Context context = open();
  EXPECT_TRUE(fails_naming(context.create_completion_queue({.depth = 0}), Errc::invalid_argument,
                           "depth", {.value = 0, .limit = 1000}));
  EXPECT_TRUE(fails_naming(context.create_completion_queue({.depth = 1001}), Errc::limit_exceeded,
                           "depth", {.value = 1001, .limit = 1000}));
  EXPECT_TRUE(fails_with(context.create_completion_queue({.depth = ~std::uint32_t{0}}),
                         Errc::limit_exceeded));
  EXPECT_EQ(require(context.create_completion_queue({.depth = 1000})).depth(), 1000u);
}

int created_vector = -1;

TEST_F(CompletionQueueTest, VectorMustExist) {
  knobs.completion_vectors = 3;
  table.create_cq = [](ibv_context* context, int depth, void* user, ibv_comp_channel* channel,
                       int vector) {
    created_vector = vector;
    return verbatim_null_provider()->create_cq(context, depth, user, channel, vector);
  };
  const Context context = open();
  const auto queue = require(context.create_completion_queue({.depth = 1, .vector = 2}));
  EXPECT_EQ(created_vector, 2);
  EXPECT_TRUE(fails_naming(context.create_completion_queue({.depth = 1, .vector = 3}),
                           Errc::limit_exceeded, "vector", {.value = 3, .limit = 2}));
}

TEST_F(CompletionQueueTest, ThatTheDeviceRefusesKeepsTheErrnoAndTheDepth) {
  table.create_cq = [](ibv_context*, int, void*, ibv_comp_channel*, int) -> ibv_cq* {
    errno = ENOMEM;
    return nullptr;
  };
  const auto queue = open().create_completion_queue({.depth = 500});
  EXPECT_TRUE(fails_naming(queue, Errc::out_of_resources, "depth", {.value = 500}));
  EXPECT_EQ(queue.error().os_error, ENOMEM);
}

// ---- Polling

TEST_F(CompletionQueueTest, GivesAtMostWhatThereIsRoomFor) {
  Bench bench(open());
  QueuePair queue_pair = bench.connected();
  for (std::uint64_t id = 0; id < 5; ++id)
    require(unsafe::post(queue_pair, send_immediate(0), WrId{id}));
  std::array<Completion, 3> completions;
  EXPECT_EQ(require(bench.queue.poll(completions)), 3u);
  EXPECT_EQ(completions[2].id(), WrId{2});
  EXPECT_EQ(require(bench.queue.poll(completions)), 2u);
  EXPECT_EQ(completions[1].id(), WrId{4});
  EXPECT_EQ(require(bench.queue.poll(completions)), 0u);
}

TEST_F(CompletionQueueTest, AFailedRequestIsACompletionAndNoError) {
  Bench bench(open());
  QueuePair queue_pair = bench.connected();
  verbatim_null_fail_send(unsafe::native(queue_pair), IBV_WC_RETRY_EXC_ERR);
  require(unsafe::post(queue_pair, send_immediate(0), WrId{9}));
  std::array<Completion, 3> completions;
  ASSERT_EQ(require(bench.queue.poll(completions)), 1u);
  EXPECT_EQ(completions[0].status(), WorkStatus::retry_exceeded);
  EXPECT_EQ(completions[0].id(), WrId{9});
  EXPECT_EQ(completions[0].queue_pair(), queue_pair.number());
}

int poll_answer = 0;

// mlx5 and mlx4 return -2 for a broken queue, which is not an errno, and certainly not ENOENT.
TEST_F(CompletionQueueTest, ABrokenQueueKeepsTheDriversNumber) {
  const Context context = open();
  CompletionQueue queue = make_queue(context);
  unsafe::native(context)->ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return poll_answer; };
  std::array<Completion, 3> completions;
  for (const int number : {-2, -1, -1000, std::numeric_limits<int>::min()}) {
    poll_answer = number;
    const auto polled = queue.poll(completions);
    EXPECT_TRUE(fails_naming(polled, Errc::device_failed, "driver code",
                             {.value = static_cast<std::uint64_t>(-std::int64_t{number})}));
    EXPECT_EQ(polled.error().os_error, 0);
  }
}

// ---- The ledger

/// Queue pairs that need 64 entries for sends and 64 for receives.
class LedgerTest : public NullDevice {
 protected:
  static Result<PreparedQueuePair> prepare(const Bench& bench,
                                           const std::optional<CompletionQueue>& receives = {}) {
    return bench.prepare([&](QueuePairOptions& options) {
      options.max_send_requests = 64;
      options.max_receive_requests = 64;
      if (receives) options.receive_completions = *receives;
    });
  }
  static void poll_empty(CompletionQueue& queue) {
    std::array<Completion, 1> completions;
    ASSERT_EQ(require(queue.poll(completions)), 0u);
  }
};

TEST_F(LedgerTest, TwoFitAndTheThirdIsRefusedWithBothNumbers) {
  const Bench bench(open(), 256);
  const auto first = require(prepare(bench));
  EXPECT_EQ(bench.queue.reserved(), 128u);
  const auto second = require(prepare(bench));
  EXPECT_EQ(bench.queue.reserved(), 256u);
  const int before = live();
  EXPECT_TRUE(fails_naming(prepare(bench), Errc::limit_exceeded, "completion queue depth",
                           {.value = 384, .limit = 256}));
  EXPECT_EQ(bench.queue.reserved(), 256u);
  EXPECT_EQ(live(), before);
}

TEST_F(LedgerTest, CountsWhatTheDeviceMadeNotWhatWasAsked) {
  knobs.extra_depth = 36;
  const Bench bench(open(), 200 - 36);
  const auto prepared = require(prepare(bench));
  EXPECT_EQ(prepared.limits().max_send_requests, 100u);
  EXPECT_EQ(bench.queue.reserved(), 200u);
}

TEST_F(LedgerTest, SendsAndReceivesAreReservedWhereTheyReport) {
  const Bench bench(open(), 64);
  const CompletionQueue receives = make_queue(bench.context, 64);
  const auto prepared = require(prepare(bench, receives));
  EXPECT_EQ(bench.queue.reserved(), 64u);
  EXPECT_EQ(receives.reserved(), 64u);
}

TEST_F(LedgerTest, RefusalNamesTheQueueThatIsTooSmall) {
  const Bench bench(open(), 64);
  EXPECT_TRUE(fails_naming(prepare(bench, make_queue(bench.context, 63)), Errc::limit_exceeded,
                           "completion queue depth", {.value = 64, .limit = 63}));
  const Bench small(bench.context, 10);
  EXPECT_TRUE(fails_naming(prepare(small, bench.queue), Errc::limit_exceeded,
                           "completion queue depth", {.value = 64, .limit = 10}));
}

// A queue pair that was never created has left nothing in the queue.
TEST_F(LedgerTest, ARefusedQueuePairLeavesNothingReserved) {
  const Bench small(open(), 10);
  const Bench bench(small.context, 64);
  EXPECT_TRUE(fails_with(prepare(small, bench.queue), Errc::limit_exceeded));
  EXPECT_EQ(bench.queue.reserved(), 0u);
  const CompletionQueue sends = make_queue(bench.context, 64);
  const Result<PreparedQueuePair> again = small.prepare([&](QueuePairOptions& options) {
    options.max_send_requests = 64;
    options.max_receive_requests = 64;
    options.send_completions = sends;
    options.receive_completions = bench.queue;
  });
  EXPECT_TRUE(succeeds(again));
}

TEST_F(LedgerTest, AQueuePairThatFailsInItsFirstStateLeavesNothingReserved) {
  table.modify_qp = [](ibv_qp*, ibv_qp_attr*, int) { return EINVAL; };
  const Bench bench(open(), 128);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto prepared = prepare(bench);
    EXPECT_TRUE(fails_with(prepared, Errc::invalid_argument));
    EXPECT_STREQ(prepared.error().operation, "ibv_modify_qp");
    EXPECT_EQ(bench.queue.reserved(), 0u);
  }
}

// Completions of a queue pair may outlive it. Their room is free once the queue was seen empty.
TEST_F(LedgerTest, RoomOfADestroyedQueuePairIsFreeOnceTheQueueWasEmpty) {
  Bench bench(open(), 256);
  std::optional<PreparedQueuePair> first = require(prepare(bench));
  const auto second = require(prepare(bench));
  first.reset();
  EXPECT_EQ(bench.queue.reserved(), 128u);
  EXPECT_TRUE(fails_naming(prepare(bench), Errc::limit_exceeded, "completion queue depth",
                           {.value = 384, .limit = 256}));
  poll_empty(bench.queue);
  EXPECT_TRUE(succeeds(prepare(bench)));
}

std::optional<QueuePair>* victim = nullptr;

// Another thread may destroy a queue pair after a poll found nothing and before the poller reports
// that. What the queue pair left came after the poll, so the poll says nothing about it.
TEST_F(LedgerTest, AQueuePairDestroyedDuringAnEmptyPollStaysCounted) {
  Bench bench(open(), 128);
  std::optional<QueuePair> queue_pair = loop_back(require(prepare(bench)));
  victim = &queue_pair;
  static auto poll = unsafe::native(bench.context)->ops.poll_cq;
  unsafe::native(bench.context)->ops.poll_cq = [](ibv_cq* queue, int room, ibv_wc* out) {
    const int found = poll(queue, room, out);
    if (found == 0 && *victim) {
      ibv_wc left{};
      left.wr_id = 17;
      EXPECT_EQ(verbatim_null_complete(queue, &left), 0);
      victim->reset();
    }
    return found;
  };
  std::array<Completion, 1> completions;
  std::size_t found = require(bench.queue.poll(completions));
  if (found == 0) {
    EXPECT_TRUE(fails_naming(prepare(bench), Errc::limit_exceeded, "completion queue depth",
                             {.value = 256, .limit = 128}));
    found = require(bench.queue.poll(completions));
  }
  ASSERT_EQ(found, 1u);
  EXPECT_EQ(completions[0].id(), WrId{17});
  EXPECT_TRUE(fails_with(prepare(bench), Errc::limit_exceeded));
  poll_empty(bench.queue);
  EXPECT_TRUE(succeeds(prepare(bench)));
}

CompletionQueue* other_poller = nullptr;

// Two threads poll, and both find that nothing is left. It is subtracted once, and what a queue
// pair leaves in between stays counted.
TEST_F(LedgerTest, TwoPollersTakeWhatIsGoneOffOnce) {
  Bench bench(open(), 128);
  static_cast<void>(require(prepare(bench)));  // And gone.
  static int looks;
  static std::function<void()> in_between;
  looks = 0;
  other_poller = &bench.queue;
  in_between = [&] { static_cast<void>(require(prepare(bench))); };
  static auto poll = unsafe::native(bench.context)->ops.poll_cq;
  unsafe::native(bench.context)->ops.poll_cq = [](ibv_cq* queue, int room, ibv_wc* out) {
    const int found = poll(queue, room, out);
    if (++looks == 2) {  // The second poll, which has to prove it.
      std::array<Completion, 1> nothing;
      EXPECT_EQ(require(other_poller->poll(nothing)), 0u);
      in_between();
    }
    return found;
  };
  poll_empty(bench.queue);
  EXPECT_TRUE(fails_naming(prepare(bench), Errc::limit_exceeded, "completion queue depth",
                           {.value = 256, .limit = 128}));
  poll_empty(bench.queue);
  EXPECT_TRUE(succeeds(prepare(bench)));
  in_between = {};
}

TEST_F(LedgerTest, PollingWithoutRoomProvesNothing) {
  Bench bench(open(), 128);
  {
    const auto gone = require(prepare(bench));
  }
  EXPECT_EQ(require(bench.queue.poll({})), 0u);
  EXPECT_TRUE(fails_with(prepare(bench), Errc::limit_exceeded));
  poll_empty(bench.queue);
  EXPECT_TRUE(succeeds(prepare(bench)));
}

TEST_F(LedgerTest, PollingSomethingProvesNothing) {
  Bench bench(open(), 256);
  QueuePair queue_pair = loop_back(require(prepare(bench)));
  {
    const auto gone = require(prepare(bench));
  }
  require(unsafe::post(queue_pair, send_immediate(0), WrId{}));
  std::array<Completion, 1> completions;
  EXPECT_EQ(require(bench.queue.poll(completions)), 1u);
  EXPECT_TRUE(fails_with(prepare(bench), Errc::limit_exceeded));
}

TEST_F(LedgerTest, MovedQueuePairsAreCountedOnce) {
  const Bench bench(open(), 256);
  auto first = require(prepare(bench));
  const auto second = std::move(first);
  EXPECT_EQ(bench.queue.reserved(), 128u);
  QueuePair connected = loop_back(require(prepare(bench)));
  const QueuePair moved = std::move(connected);
  EXPECT_EQ(bench.queue.reserved(), 256u);
}

TEST_F(LedgerTest, SharedReceiveQueueIsReservedOncePerCompletionQueue) {
  const Bench bench(open(), 1024);
  const CompletionQueue other = make_queue(bench.context);
  const SharedReceiveQueue shared =
      require(bench.domain.create_shared_receive_queue({.max_requests = 100}));
  const auto prepare_on = [&](const CompletionQueue& receives) {
    return bench.prepare([&](QueuePairOptions& options) {
      options.max_send_requests = 10;
      options.receive_completions = receives;
      options.shared_receive_queue = shared;
    });
  };
  std::optional<PreparedQueuePair> first = require(prepare_on(bench.queue));
  EXPECT_EQ(bench.queue.reserved(), 110u);
  std::optional<PreparedQueuePair> second = require(prepare_on(bench.queue));
  EXPECT_EQ(bench.queue.reserved(), 120u);
  const auto third = require(prepare_on(other));
  EXPECT_EQ(bench.queue.reserved(), 130u);  // Its sends report here.
  EXPECT_EQ(other.reserved(), 100u);
  first.reset();
  EXPECT_EQ(bench.queue.reserved(), 120u);
  second.reset();
  EXPECT_EQ(bench.queue.reserved(), 10u);
}

// ---- Depth that changes

TEST_F(LedgerTest, AQueueThatMayGrowGrowsToWhatIsNeeded) {
  const Context context = open();
  const auto domain = require(context.allocate_domain());
  const CompletionQueue queue = require(
      context.create_completion_queue({.depth = 10, .growth = CompletionQueueGrowth::resize}));
  const auto first = require(QueuePair::prepare(options_for(domain, queue)));
  EXPECT_EQ(queue.depth(), 256u);
  EXPECT_EQ(queue.reserved(), 256u);
  const auto second = require(QueuePair::prepare(options_for(domain, queue)));
  EXPECT_EQ(queue.depth(), 512u);
  const auto third = require(QueuePair::prepare(options_for(domain, queue)));
  EXPECT_EQ(queue.depth(), 1024u);  // Doubled, so that resizes stay rare.
}

TEST_F(LedgerTest, AQueueGrowsToTheLastEntryThatTheDeviceHas) {
  knobs.device.max_cqe = 700;
  const Context context = open();
  const auto domain = require(context.allocate_domain());
  const CompletionQueue queue = require(
      context.create_completion_queue({.depth = 512, .growth = CompletionQueueGrowth::resize}));
  auto options = options_for(domain, queue);
  const auto first = require(QueuePair::prepare(options));
  const auto second = require(QueuePair::prepare(options));
  options.max_send_requests = 44;
  options.max_receive_requests = 44;
  const auto third = require(QueuePair::prepare(options));
  EXPECT_EQ(queue.depth(), 700u);
  EXPECT_EQ(queue.reserved(), 600u);
}

TEST_F(LedgerTest, AQueueDoesNotGrowBeyondTheDevice) {
  knobs.device.max_cqe = 200;
  const Context context = open();
  const auto domain = require(context.allocate_domain());
  const CompletionQueue queue = require(
      context.create_completion_queue({.depth = 10, .growth = CompletionQueueGrowth::resize}));
  EXPECT_TRUE(fails_naming(QueuePair::prepare(options_for(domain, queue)), Errc::limit_exceeded,
                           "completion queue depth", {.value = 256, .limit = 200}));
  EXPECT_EQ(queue.depth(), 10u);
  EXPECT_EQ(queue.reserved(), 0u);
}

TEST_F(LedgerTest, AQueueThatTheDeviceCannotGrowSaysSo) {
  table.resize_cq = [](ibv_cq*, int) { return EOPNOTSUPP; };
  const Context context = open();
  const auto domain = require(context.allocate_domain());
  const CompletionQueue queue = require(
      context.create_completion_queue({.depth = 10, .growth = CompletionQueueGrowth::resize}));
  const auto prepared = QueuePair::prepare(options_for(domain, queue));
  EXPECT_TRUE(fails_naming(prepared, Errc::unsupported, "completion queue depth", {.value = 256}));
  EXPECT_EQ(prepared.error().os_error, EOPNOTSUPP);
}

TEST_F(LedgerTest, ResizeChangesTheDepth) {
  knobs.device.max_cqe = 1000;
  CompletionQueue queue = make_queue(open(), 100);
  require(queue.resize(200));
  EXPECT_EQ(queue.depth(), 200u);
  require(queue.resize(50));
  EXPECT_EQ(queue.depth(), 50u);
  EXPECT_TRUE(fails_naming(queue.resize(1001), Errc::limit_exceeded, "completion queue depth",
                           {.value = 1001, .limit = 1000}));
  EXPECT_TRUE(fails_naming(queue.resize(0), Errc::invalid_argument, "completion queue depth",
                           {.value = 0, .limit = 1000}));
  EXPECT_EQ(queue.depth(), 50u);
}

TEST_F(LedgerTest, ResizeNeverGoesBelowWhatIsReserved) {
  Bench bench(open(), 256);
  const auto prepared = require(prepare(bench));
  EXPECT_TRUE(fails_naming(bench.queue.resize(127), Errc::busy, "completion queue depth",
                           {.value = 127, .limit = 128}));
  EXPECT_TRUE(fails_with(bench.queue.resize(0), Errc::busy));
  EXPECT_EQ(bench.queue.depth(), 256u);
  require(bench.queue.resize(128));
  EXPECT_EQ(bench.queue.depth(), 128u);
}

TEST_F(LedgerTest, ResizeNeverGoesBelowWhatMayStillBeThere) {
  Bench bench(open(), 256);
  const auto kept = require(prepare(bench));
  {
    const auto gone = require(prepare(bench));
  }
  EXPECT_TRUE(fails_naming(bench.queue.resize(255), Errc::busy, "completion queue depth",
                           {.value = 255, .limit = 256}));
  poll_empty(bench.queue);
  EXPECT_TRUE(succeeds(bench.queue.resize(128)));
}

TEST_F(LedgerTest, ResizeThatTheDeviceRefusesKeepsTheDepth) {
  table.resize_cq = [](ibv_cq*, int) {
    errno = EIO;
    return -1;
  };
  CompletionQueue queue = make_queue(open(), 100);
  const auto resized = queue.resize(200);
  EXPECT_TRUE(fails_naming(resized, Errc::driver, "completion queue depth", {.value = 200}));
  EXPECT_EQ(resized.error().os_error, EIO);
  EXPECT_EQ(queue.depth(), 100u);
}

// ---- Without a channel

TEST_F(CompletionQueueTest, WithoutAChannelCannotSleep) {
  CompletionQueue queue = make_queue(open());
  std::array<Completion, 1> completions;
  EXPECT_TRUE(fails_naming(queue.arm(), Errc::invalid_argument, "channel"));
  EXPECT_TRUE(fails_naming(queue.wait(completions, std::chrono::seconds{1}), Errc::invalid_argument,
                           "channel"));
  EXPECT_FALSE(queue.take_signal());
}

}  // namespace
}  // namespace verbatim::test
