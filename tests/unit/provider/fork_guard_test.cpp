// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a forked child cannot use, and cannot break, the device of its parent.
// Method: fork with every kind of object alive; the child calls and destroys, the parent continues.
#include "provider/fork_guard.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "support/forked_child.hpp"
#include "support/null_device.hpp"
#include "verbatim/verbs/address_handle.hpp"
#include "verbatim/verbs/batch.hpp"
#include "verbatim/verbs/completion_channel.hpp"
#include "verbatim/verbs/numa.hpp"
#include "verbatim/verbs/shared_receive_queue.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

/// One of each kind of object.
struct Everything {
  explicit Everything(const Context& opened)
      : context(opened),
        domain(require(opened.allocate_domain())),
        channel(require(opened.create_completion_channel())),
        queue(require(opened.create_completion_queue({.depth = 1024, .channel = channel}))),
        shared_queue(require(domain.create_shared_receive_queue({.max_requests = 8}))),
        buffer(require(domain.allocate(4096))),
        shared(require(domain.allocate_shared(4096, Access::remote_write))),
        address(require(domain.create_address_handle({.remote_lid = Lid{1}}))),
        prepared(require(QueuePair::prepare(options_for(domain, queue)))),
        queue_pair(loop_back(require(QueuePair::prepare(options_for(domain, queue))))) {}

  Context context;
  ProtectionDomain domain;
  CompletionChannel channel;
  CompletionQueue queue;
  SharedReceiveQueue shared_queue;
  Buffer buffer;
  SharedRegion shared;
  AddressHandle address;
  PreparedQueuePair prepared;
  QueuePair queue_pair;
};

class ForkGuardTest : public NullDevice {
 protected:
  void SetUp() override { all.emplace(open()); }
  void TearDown() override {
    all.reset();
    NullDevice::TearDown();
  }
  /// The parent's objects still work.
  void expect_working() {
    ASSERT_TRUE(succeeds(unsafe::post(all->queue_pair, send_immediate(1), WrId{7})));
    std::array<Completion, 2> completions;
    EXPECT_EQ(require(all->queue.poll(completions)), 1u);
    EXPECT_EQ(completions[0].id(), WrId{7});
    EXPECT_EQ(require(all->queue_pair.query_state()), QueuePairState::ready_to_send);
  }
  std::optional<Everything> all;
};

TEST_F(ForkGuardTest, ChildMayNotUseTheDevice) {
  in_forked_child([&] {
    Everything& e = *all;
    EXPECT_TRUE(fails_with(e.context.query_port(1), Errc::forked));
    EXPECT_TRUE(fails_with(e.context.first_active_port(), Errc::forked));
    EXPECT_TRUE(fails_with(e.context.query_gid_table(1), Errc::forked));
    EXPECT_TRUE(fails_with(e.context.query_partition_keys(1), Errc::forked));
    EXPECT_TRUE(fails_with(e.context.allocate_domain(), Errc::forked));
    EXPECT_TRUE(fails_with(e.context.create_completion_channel(), Errc::forked));
    EXPECT_TRUE(fails_with(e.context.create_completion_queue({.depth = 8}), Errc::forked));
    EXPECT_TRUE(fails_with(e.context.dispatch_events(), Errc::forked));
  });
}

TEST_F(ForkGuardTest, ChildMayNotMakeObjectsOfADomain) {
  in_forked_child([&] {
    Everything& e = *all;
    std::array<std::byte, 64> memory{};
    EXPECT_TRUE(fails_with(e.domain.allocate(64), Errc::forked));
    EXPECT_TRUE(fails_with(e.domain.allocate_shared(64, Access::remote_read), Errc::forked));
    EXPECT_TRUE(fails_with(e.domain.register_local(memory), Errc::forked));
    EXPECT_TRUE(fails_with(e.domain.register_dmabuf({.fd = 0, .length = 1}), Errc::forked));
    EXPECT_TRUE(
        fails_with(e.domain.create_shared_receive_queue({.max_requests = 1}), Errc::forked));
    EXPECT_TRUE(fails_with(e.domain.create_address_handle({}), Errc::forked));
    EXPECT_TRUE(fails_with(QueuePair::prepare(options_for(e.domain, e.queue)), Errc::forked));
  });
}

TEST_F(ForkGuardTest, ChildMayNotControlQueues) {
  in_forked_child([&] {
    Everything& e = *all;
    EXPECT_TRUE(fails_with(e.queue.arm(), Errc::forked));
    EXPECT_TRUE(fails_with(e.queue.resize(2048), Errc::forked));
    EXPECT_TRUE(fails_with(e.channel.wait(std::chrono::nanoseconds{0}), Errc::forked));
    EXPECT_TRUE(fails_with(e.shared_queue.arm_limit(1), Errc::forked));
    EXPECT_TRUE(fails_with(e.shared_queue.limit(), Errc::forked));
    EXPECT_TRUE(fails_with(e.queue_pair.query_state(), Errc::forked));
    EXPECT_TRUE(fails_with(e.queue_pair.move_to_error(), Errc::forked));
    EXPECT_TRUE(fails_with(e.queue_pair.address_handle(e.queue_pair.endpoint()), Errc::forked));
    const Endpoint peer = e.queue_pair.endpoint();
    EXPECT_TRUE(fails_with(std::move(e.queue_pair).reset(), Errc::forked));
    EXPECT_TRUE(fails_with(std::move(e.prepared).connect(peer), Errc::forked));
  });
}

TEST_F(ForkGuardTest, ChildMayNotPostNorPoll) {
  in_forked_child([&] {
    Everything& e = *all;
    EXPECT_TRUE(fails_with(unsafe::post(e.queue_pair, send_immediate(1), WrId{1}), Errc::forked));
    EXPECT_TRUE(fails_with(unsafe::post(e.queue_pair, Receive{}, WrId{1}), Errc::forked));
    EXPECT_TRUE(fails_with(unsafe::post(e.prepared, Receive{}, WrId{1}), Errc::forked));
    EXPECT_TRUE(fails_with(unsafe::post(e.shared_queue, Receive{}, WrId{1}), Errc::forked));
    std::array<Completion, 4> completions;
    EXPECT_TRUE(fails_with(e.queue.poll(completions), Errc::forked));
    EXPECT_TRUE(fails_with(e.queue.wait(completions, std::chrono::nanoseconds{0}), Errc::forked));
  });
}

TEST_F(ForkGuardTest, ChildMayNotPostBatches) {
  in_forked_child([&] {
    unsafe::SendBatch<2> sends{all->queue_pair};
    require(sends.add(send_immediate(1), WrId{1}));
    const unsafe::Posted sent = sends.post();
    EXPECT_EQ(sent.accepted, 0u);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error->code, Errc::forked);

    unsafe::ReceiveBatch<2> receives;
    require(receives.add(Receive{}, WrId{1}));
    const unsafe::Posted received = receives.post(all->queue_pair);
    ASSERT_FALSE(received);
    EXPECT_EQ(received.error->code, Errc::forked);
  });
}

TEST_F(ForkGuardTest, WhatTheDeviceSaidBeforeIsStillThere) {
  in_forked_child([&] {
    EXPECT_EQ(all->context.name(), "null0");
    EXPECT_EQ(all->context.capabilities().max_requests, 4096u);
    EXPECT_EQ(all->queue.depth(), 1024u);
    EXPECT_EQ(all->queue_pair.type(), QueuePairType::reliable_connection);
  });
}

TEST_F(ForkGuardTest, DestructorsInTheChildTouchNothing) {
  const int before = live();
  in_forked_child([&] {
    table.close_device = [](ibv_context*) {
      ADD_FAILURE() << "the child closed its parent's device";
      return 0;
    };
    all.reset();
    // The list of devices is only memory, and the child has its own copy.
    EXPECT_EQ(live(), before - 1) << "the child destroyed what belongs to its parent";
  });
  EXPECT_EQ(live(), before);
  expect_working();
}

// The child has no such thread to end, but shares the means to end its parent's.
TEST_F(ForkGuardTest, DestructorsInTheChildLeaveTheEventThreadAlone) {
  in_forked_child([&] { all.reset(); });
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = unsafe::native(all->queue_pair);
  verbatim_null_raise(unsafe::native(all->context), &event);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (all->queue_pair.events().empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(all->queue_pair.events(), EventFlags{EventType::queue_pair_fatal});
}

TEST_F(ForkGuardTest, ParentGoesOnWhileTheChildLives) {
  in_forked_child([&] {
    EXPECT_TRUE(
        fails_with(unsafe::post(all->queue_pair, send_immediate(1), WrId{1}), Errc::forked));
  });
  expect_working();
  in_forked_child([&] { all.reset(); });  // And a second time.
  expect_working();
}

TEST_F(ForkGuardTest, ChildCanOpenTheDeviceForItself) {
  in_forked_child([&] {
    const Context own = open();
    const Bench bench(own);
    QueuePair mine = bench.connected();
    EXPECT_TRUE(succeeds(unsafe::post(mine, send_immediate(1), WrId{1})));
    EXPECT_TRUE(fails_with(all->context.query_port(1), Errc::forked));
  });
}

TEST_F(ForkGuardTest, GrandchildMayNotEither) {
  in_forked_child([&] {
    in_forked_child([&] { EXPECT_TRUE(fails_with(all->context.query_port(1), Errc::forked)); });
  });
}

TEST_F(ForkGuardTest, RawVerbsOfTheChildFailToo) {
  in_forked_child([&] {
    ibv_context* const raw = unsafe::native(all->context);
    EXPECT_TRUE(detail::is_forked(raw));
    ibv_recv_wr receive{};
    ibv_recv_wr* rejected = nullptr;
    ibv_qp* const queue_pair = unsafe::native(all->queue_pair);
    EXPECT_NE(raw->ops.post_recv(queue_pair, &receive, &rejected), 0);
    EXPECT_EQ(rejected, &receive);
    EXPECT_LT(raw->ops.poll_cq(unsafe::native(all->queue), 0, nullptr), 0);
    EXPECT_NE(raw->ops.req_notify_cq(unsafe::native(all->queue), 0), 0);
  });
  EXPECT_FALSE(detail::is_forked(unsafe::native(all->context)));
}

TEST_F(ForkGuardTest, ContextsThatWereClosedAreForgotten) {
  {
    const Context closed = open();
  }
  const Context later = open();
  {
    const Context between = open();
  }
  in_forked_child([&] { EXPECT_TRUE(fails_with(later.query_port(1), Errc::forked)); });
  EXPECT_TRUE(succeeds(later.query_port(1)));
}

}  // namespace
}  // namespace verbatim::test
