// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an asynchronous event wakes its owner, which sleeps in the call that reads events and does
//       not poll, whether the peer that caused the event is in this process or another.
// Method: a thread in get_async_event; a peer in this process or in another one raises the event.
//         Each test runs in a separate process, because what an earlier test started must not help.
// Covers: soft/helper.cpp
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>

#include "conformance/raw_peer.hpp"
#include "support/blocked_thread.hpp"
#include "support/contained.hpp"

namespace verbatim::test {
namespace {

/// How long a real device may take, on an emulated machine.
constexpr std::chrono::seconds kWakeUp{5};

/// How the owner waits for events.
enum class Sleep : std::uint8_t {
  in_the_call,        ///< In get_async_event itself.
  on_the_descriptor,  ///< In poll(), as programs with an event loop do.
};

/// Sleeps until the next event of the context.
class EventSleeper {
 public:
  EventSleeper(ibv_context* context, Sleep how)
      : thread_([this, context, how] {
          if (how == Sleep::on_the_descriptor && !raw::is_readable(context->async_fd, kPatience))
            return;
          ibv_async_event event{};
          if (raw::verbs().get_async_event(context, &event) != 0) return;
          raw::verbs().ack_async_event(&event);
          event_ = event;
        }) {
    EXPECT_TRUE(thread_.sleeps());
  }
  /// The event that woke the owner, if any.
  [[nodiscard]] std::optional<ibv_async_event> wake_up() {
    static_cast<void>(thread_.ends_within(kWakeUp));
    thread_.join();
    return event_;
  }

 private:
  std::optional<ibv_async_event> event_;  ///< Read when the thread is over.
  BlockedThread thread_;
};

testing::AssertionResult is(const std::optional<ibv_async_event>& event, ibv_event_type type) {
  if (!event) return testing::AssertionFailure() << "the owner was not woken";
  if (event->event_type == type) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "woken by event " << event->event_type;
}

using SleepCase = std::tuple<Place, Sleep>;

class SleepingOwner : public testing::TestWithParam<SleepCase> {
 protected:
  Place place_ = std::get<Place>(GetParam());
  Sleep how_ = std::get<Sleep>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(
    Peers, SleepingOwner,
    testing::Combine(testing::Values(Place::this_process, Place::other_process),
                     testing::Values(Sleep::in_the_call, Sleep::on_the_descriptor)),
    [](const testing::TestParamInfo<SleepCase>& each) {
      return std::string{std::get<Place>(each.param) == Place::this_process ? "Within"
                                                                            : "Between"} +
             (std::get<Sleep>(each.param) == Sleep::in_the_call ? "InTheCall" : "OnTheDescriptor");
    });

/// A shared queue with `posted` receives, which raises an event when fewer than `limit` are left.
void prepare_limit(const Watched& side, const raw::Owned<ibv_mr>& region, std::uint64_t posted,
                   std::uint32_t limit) {
  for (std::uint64_t id = 0; id < posted; ++id)
    ASSERT_EQ(raw::post_receive(side.shared.get(), id, raw::local(region.get(), id * 256, 256)), 0);
  ibv_srq_attr wanted{};
  wanted.srq_limit = limit;
  ASSERT_EQ(raw::verbs().modify_srq(side.shared.get(), &wanted, IBV_SRQ_LIMIT), 0);
}

void expect_limit_event(const WatchedOptions& options, Sleep how) {
  const raw::Mapping memory(4096);
  const Watched side(options);
  const raw::Owned<ibv_mr> region = side.expose(memory.bytes());
  prepare_limit(side, region, 8, 5);
  EventSleeper owner(side.context.get(), how);
  for (int i = 0; i < 4; ++i)
    ASSERT_EQ(side.peer->execute({.unwatched = true, .bytes = 16}).status, IBV_WC_SUCCESS);
  const auto event = owner.wake_up();
  ASSERT_TRUE(is(event, IBV_EVENT_SRQ_LIMIT_REACHED));
  EXPECT_EQ(event->element.srq, side.shared.get());
}

TEST_P(SleepingOwner, HearsThatASharedReceiveQueueRunsLow) {
  if (!capabilities().shared_receive_queue) GTEST_SKIP() << "the device has no such queues";
  contained([this] { expect_limit_event({.peer = place_, .shared = true}, how_); });
}

TEST_P(SleepingOwner, HearsThatDatagramsLeaveASharedReceiveQueueLow) {
  if (!capabilities().shared_receive_queue || !capabilities().unreliable_datagram)
    GTEST_SKIP() << "the device has no such queues";
  contained(
      [this] { expect_limit_event({.peer = place_, .type = IBV_QPT_UD, .shared = true}, how_); });
}

TEST_P(SleepingOwner, HearsThatCommunicationIsEstablished) {
  contained([this] {
    const raw::Mapping memory(4096);
    const Watched side({.peer = place_, .connected = false});
    const raw::Owned<ibv_mr> region = side.expose(memory.bytes());
    ibv_qp* const passive = side.queue_pair();
    ASSERT_EQ(raw::to_init(passive), 0);
    ASSERT_EQ(raw::post_receive(passive, 1, raw::local(region.get(), 0, 256)), 0);
    ASSERT_EQ(raw::to_ready_to_receive(passive, side.peer->addresses()[0]), 0);
    side.peer->connect(std::array{raw::address_of(passive)});
    EventSleeper owner(side.context.get(), how_);
    ASSERT_EQ(side.peer->execute({.unwatched = true, .bytes = 16}).status, IBV_WC_SUCCESS);
    const auto event = owner.wake_up();
    ASSERT_TRUE(is(event, IBV_EVENT_COMM_EST));
    EXPECT_EQ(event->element.qp, passive);
    EXPECT_EQ(raw::to_ready_to_send(passive), 0);
  });
}

int drain(ibv_qp* queue_pair) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_SQD;
  wanted.en_sqd_async_notify = 1;
  return raw::verbs().modify_qp(queue_pair, &wanted, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

TEST_P(SleepingOwner, HearsThatAnIdleSendQueueIsDrained) {
  contained([this] {
    const Watched side({.peer = place_});
    EventSleeper owner(side.context.get(), how_);
    const int error = drain(side.queue_pair());
    if (error == EOPNOTSUPP || error == ENOSYS) return;  // Not every device can do this.
    ASSERT_EQ(error, 0);
    const auto event = owner.wake_up();
    ASSERT_TRUE(is(event, IBV_EVENT_SQ_DRAINED));
    EXPECT_EQ(event->element.qp, side.queue_pair());
  });
}

TEST(SleepingOwnerOfTwo, HearsThatABusySendQueueIsDrained) {
  contained([] {
    const raw::Owned<ibv_context> context = raw::open();
    const raw::Owned<ibv_pd> domain = raw::domain(context.get());
    const raw::Owned<ibv_cq> queue = raw::completion_queue(context.get());
    const raw::QueuePairRecipe recipe{
        .domain = domain.get(), .sends = queue.get(), .receives = queue.get()};
    const raw::Owned<ibv_qp> left = raw::queue_pair(recipe);
    const raw::Owned<ibv_qp> right = raw::queue_pair(recipe);
    raw::connect(left.get(), right.get());
    ASSERT_EQ(raw::post_send(left.get(), 1, {}), 0);  // It waits for a receive.
    EventSleeper owner(context.get(), Sleep::in_the_call);
    const int error = drain(left.get());
    if (error == EOPNOTSUPP || error == ENOSYS) return;  // Not every device can do this.
    ASSERT_EQ(error, 0);
    ASSERT_EQ(raw::post_receive(right.get(), 2, {}), 0);
    const auto event = owner.wake_up();
    ASSERT_TRUE(is(event, IBV_EVENT_SQ_DRAINED));
    EXPECT_EQ(event->element.qp, left.get());
    for (int i = 0; i < 2; ++i) {
      const auto found = raw::poll_within(queue.get(), kWakeUp);
      ASSERT_TRUE(found) << "drained, but the request is not over";
      EXPECT_EQ(found->status, IBV_WC_SUCCESS);
    }
  });
}

TEST_P(SleepingOwner, HearsThatABrokenQueuePairHasTakenItsLastReceive) {
  if (!capabilities().shared_receive_queue) GTEST_SKIP() << "the device has no such queues";
  contained([this] {
    const Watched side({.peer = place_, .shared = true});
    const auto wait_for_last = [&] {
      // The access that is refused may raise a separate event.
      for (int i = 0; i < 3; ++i) {
        EventSleeper owner(side.context.get(), how_);
        if (i == 0) {
          EXPECT_EQ(side.peer
                        ->execute({.kind = Order::Kind::write,
                                   .bytes = 16,
                                   .target = {.address = 4096, .bytes = 16, .key = 1}})
                        .status,
                    IBV_WC_REM_ACCESS_ERR);
        }
        const auto event = owner.wake_up();
        if (!event || event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) return event;
      }
      return std::optional<ibv_async_event>{};
    };
    const auto event = wait_for_last();
    ASSERT_TRUE(is(event, IBV_EVENT_QP_LAST_WQE_REACHED));
    EXPECT_EQ(event->element.qp, side.queue_pair());
  });
}

}  // namespace
}  // namespace verbatim::test
