// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: events of the device reach the object that they concern, whoever reads the events.
// Method: provoke events that only a device can cause: a queue that runs low, an access that is
//         denied, a completion queue that overflows.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <vector>

#include "support/connected_pair.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {
namespace {

constexpr EventType kLimitReached = EventType::shared_receive_queue_limit_reached;

/// Lets a shared receive queue run low, which raises an event on every device with such queues.
struct EventSource {
  explicit EventSource(ContextOptions options)
      : domain(require(open_context(std::move(options)).allocate_domain())),
        queue(require(domain.create_shared_receive_queue({.max_requests = 16}))),
        pair(domain, {.remote = [this](QueuePairOptions& each) {
               each.shared_receive_queue = queue;
               each.max_receive_requests.reset();
             }}) {}

  void raise() {
    require(unsafe::post(queue, Receive{}, WrId{1}));
    require(unsafe::post(queue, Receive{}, WrId{2}));
    require(queue.arm_limit(2));
    pair.local.post(Send{}, 3);
    poll_ok(pair.local.sends);
    poll_ok(pair.remote.receives);
  }

  ProtectionDomain domain;
  SharedReceiveQueue queue;
  ConnectedPair pair;
};

class Events : public testing::Test {
  void SetUp() override {
    if (!capabilities().shared_receive_queue)
      GTEST_SKIP() << "the device has no shared receive queues to raise an event with";
  }
};

TEST_F(Events, AreReadByTheLibrarysThread) {
  EventSource source({});
  EXPECT_TRUE(source.queue.events().empty());
  source.raise();
  EXPECT_TRUE(eventually([&] { return source.queue.events().has(kLimitReached); }));
}

TEST_F(Events, AreReadByTheCallerWhoWantsTo) {
  EventSource source({.events = EventDelivery::manual});
  const Context context = source.domain.context();
  require(context.dispatch_events());
  source.raise();
  pollfd entry{.fd = context.event_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, static_cast<int>(std::chrono::milliseconds{kPatience}.count())), 1);
  EXPECT_FALSE(source.queue.events().has(kLimitReached)) << "nobody has read it yet";
  EXPECT_GE(require(context.dispatch_events()), 1u);
  EXPECT_TRUE(source.queue.events().has(kLimitReached));
  EXPECT_EQ(require(context.dispatch_events()), 0u) << "there are no more, and it does not block";
}

TEST_F(Events, ReachTheHandlerAfterTheObjectWasMarked) {
  std::mutex mutex;
  std::vector<AsyncEvent> seen;
  EventSource source({.on_event = [&](const AsyncEvent& event) {
    const std::lock_guard lock{mutex};
    seen.push_back(event);
  }});
  source.raise();
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock{mutex};
    return std::ranges::count(seen, kLimitReached, &AsyncEvent::type) == 1;
  }));
  EXPECT_TRUE(source.queue.events().has(kLimitReached));
}

TEST_F(Events, UnreadDoNotKeepObjectsFromBeingDestroyed) {
  EventSource source({.events = EventDelivery::manual});
  source.raise();
}

TEST(AccessError, IsToldToTheSideThatWasAccessed) {
  ConnectedPair pair;
  ExposedMemory target(pair.domain, 64, Access::remote_read);
  Buffer source = require(pair.domain.allocate(64));
  pair.local.post(Write{source.gather(), target.remote()}, 1);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::remote_access);
  // Nothing was posted there that could complete, so the event is the only sign.
  const EventFlags any = EventType::queue_pair_access_error | EventType::queue_pair_request_error |
                         EventType::queue_pair_fatal;
  EXPECT_TRUE(eventually([&] { return pair.remote.queue_pair.events().has_any(any); },
                         std::chrono::seconds{5}))
      << "no event at the side that was accessed";
  EXPECT_FALSE(pair.local.queue_pair.events().has_any(any)) << "the other side has a completion";
}

TEST(AccessError, OfAFormerLifeIsForgottenAlsoIfNobodyReadItsEvent) {
  // The test reads events by hand, so this one waits until after the reset.
  const ProtectionDomain domain =
      require(open_context({.events = EventDelivery::manual}).allocate_domain());
  ConnectedPair pair(domain, {});
  ExposedMemory target(pair.domain, 64, Access::remote_read);
  Buffer source = require(pair.domain.allocate(64));
  pair.local.post(Write{source.gather(), target.remote()}, 1);
  EXPECT_EQ(poll_one(pair.local.sends).status(), WorkStatus::remote_access);
  pollfd waiting{.fd = domain.context().event_fd(), .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, 2000) != 1) GTEST_SKIP() << "the device tells of no access errors";
  PreparedQueuePair local = require(std::move(pair.local.queue_pair).reset());
  PreparedQueuePair remote = require(std::move(pair.remote.queue_pair).reset());
  const Endpoint local_endpoint = local.endpoint();
  pair.local.queue_pair = require(std::move(local).connect(remote.endpoint()));
  pair.remote.queue_pair = require(std::move(remote).connect(local_endpoint));
  EXPECT_TRUE(succeeds(domain.context().dispatch_events()));
  EXPECT_TRUE(pair.remote.queue_pair.events().empty());
  exchange(pair);
}

// After an overrun the specification allows anything except silence. It takes an application that
// posts without polling, on a device that frees the request before its completion is polled.
TEST(CompletionQueueOverrun, IsToldByAnEvent) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  QueuePairLimits limits;
  {
    const CompletionQueue queue = completion_queue(domain.context());
    limits = require(QueuePair::prepare(queue_pair_options(domain, queue, queue))).limits();
  }
  CompletionQueue small = completion_queue(domain.context(), limits.max_send_requests);
  ConnectedPair pair(domain,
                     {.local = [&](QueuePairOptions& each) { each.send_completions = small; }});
  const auto is_told = [&] { return small.events().has(EventType::completion_queue_error); };
  for (std::uint64_t id = 0; id < 2 * small.depth() + 2 && !is_told(); ++id) {
    pair.remote.post(Receive{}, id);
    std::optional<Error> refusal;
    const bool posted = eventually(
        [&] {
          const auto result = unsafe::post(pair.local.queue_pair, Send{}, WrId{id});
          if (!result) refusal = result.error();
          return result.has_value();
        },
        std::chrono::seconds{1});
    if (!posted) {
      ASSERT_EQ(refusal->code, Errc::would_block);
      GTEST_SKIP() << "the device holds a request until its completion is polled: no overrun";
    }
    // After the overrun the message may be lost. The event may come later than that.
    std::array<Completion, 1> found;
    if (!eventually([&] { return is_told() || require(pair.remote.receives.poll(found)) == 1; }))
      break;
  }
  EXPECT_TRUE(eventually(is_told)) << "no event completion_queue_error";
}

TEST(DeviceEvents, AreNoneWhileAllIsWell) {
  ConnectedPair pair;
  exchange(pair);
  EXPECT_FALSE(pair.context.events().has_any(EventType::device_fatal | EventType::port_error));
  EXPECT_TRUE(pair.local.sends.events().empty());
}

}  // namespace
}  // namespace verbatim::test
