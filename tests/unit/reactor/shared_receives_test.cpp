// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: dropped buffers are posted 16 per doorbell, and none is withheld for ever; a queue pair is
//       destroyed when the device reports that it has taken its last receive; receives that it took
//       along are posted again, but only when no queue pair can still hold them.
// Method: the null device, for which the test makes up the completions of receives.
// Covers: channel/shared_receives.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "support/null_device.hpp"
#include "verbatim/reactor/reactor.hpp"
#include "verbatim/verbs/unsafe.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

/// What the device got, and what it reports.
struct Wire {
  std::vector<std::uint64_t> posted;     ///< Ids, in their order.
  std::vector<std::size_t> doorbells{};  ///< How many with each.
  std::deque<ibv_wc> completions{};
  std::vector<ibv_qp*> queue_pairs{};
  std::vector<ibv_qp*> holders{};  ///< Of each that was posted to a queue pair alone.
  ibv_qp* stopped = nullptr;       ///< It flushes what it has.
  bool refuses_to_stop = false;    ///< Queue pairs have to be destroyed.
  void flush(std::size_t number) {
    ibv_wc wc{};
    wc.wr_id = posted.at(number);
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.qp_num = holders.at(number)->qp_num;
    completions.push_back(wc);
    holders.at(number) = nullptr;
  }
  decltype(ibv_context_ops::poll_cq) poll = nullptr;
};
Wire* wire = nullptr;

int post_shared(ibv_srq* queue, ibv_recv_wr* first, ibv_recv_wr** rejected) {
  std::size_t count = 0;
  for (const ibv_recv_wr* each = first; each != nullptr; each = each->next, ++count)
    wire->posted.push_back(each->wr_id);
  wire->doorbells.push_back(count);
  static_cast<void>(queue);
  static_cast<void>(rejected);
  return 0;
}
int poll_made_up(ibv_cq* queue, int room, ibv_wc* out) {
  int count = 0;
  for (; count < room && !wire->completions.empty(); ++count) {
    out[count] = wire->completions.front();
    wire->completions.pop_front();
  }
  return count > 0 ? count : wire->poll(queue, room, out);
}
ibv_qp* create_noted(ibv_pd* domain, ibv_qp_init_attr* init) {
  ibv_qp* const made = verbatim_null_provider()->create_qp(domain, init);
  wire->queue_pairs.push_back(made);
  return made;
}

class SharedReceivesOfADevice : public NullDevice {
 protected:
  static constexpr std::uint32_t kCount = 64;

  SharedReceivesOfADevice() {
    wire = &script;
    table.create_qp = &create_noted;
  }
  void SetUp() override {
    const Context context = open();
    ibv_context_ops& ops = unsafe::native(context)->ops;
    script.poll = ops.poll_cq;
    ops.poll_cq = &poll_made_up;
    ops.post_srq_recv = &post_shared;
    domain.emplace(require(context.allocate_domain()));
    reactor.emplace(require(Reactor::create(
        *domain, {.receives = SharedReceiveOptions{.bytes = 64, .count = kCount}})));
  }
  void TearDown() override {
    reactor->poll();  // Channels that were left to it end here.
    reactor.reset();
    domain.reset();
    NullDevice::TearDown();
    wire = nullptr;
  }
  [[nodiscard]] Channel connected(std::chrono::nanoseconds flush_timeout = 1ms) {
    auto prepared = require(PreparedChannel::create(
        *domain, {.on = *reactor, .max_sends = 3, .flush_timeout = flush_timeout}));
    const Endpoint self = prepared.endpoint();
    return require(std::move(prepared).connect(self));
  }
  /// A message to the `nth` queue pair created, in the receive that was posted `number`th.
  void message(std::size_t nth, std::size_t number, ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc wc{};
    wc.wr_id = script.posted.at(number);
    wc.status = status;
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = 8;
    wc.qp_num = script.queue_pairs.at(nth)->qp_num;
    script.completions.push_back(wc);
  }
  /// Waits until this many objects are left.
  [[nodiscard]] bool left(int objects) {
    const auto end = std::chrono::steady_clock::now() + 30s;
    do {
      reactor->poll();
      std::this_thread::yield();
      if (live() == objects) return true;
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  Wire script{};
  std::optional<ProtectionDomain> domain{};
  std::optional<Reactor> reactor{};
};

TEST_F(SharedReceivesOfADevice, DroppedBuffersArePostedSixteenAtADoorbell) {
  EXPECT_EQ(script.doorbells, std::vector<std::size_t>{kCount});
  Channel channel = connected();
  for (std::size_t i = 0; i < 32; ++i) {
    message(0, i);
    EXPECT_TRUE(succeeds(channel.receive().wait(1s).result));
  }
  EXPECT_EQ(script.doorbells, (std::vector<std::size_t>{kCount, 16, 16}));
  EXPECT_EQ(reactor->free_receives(), kCount);
}

TEST_F(SharedReceivesOfADevice, TheRestIsPostedBeforeAnybodySleeps) {
  Channel channel = connected();
  for (std::size_t i = 0; i < 3; ++i) {
    message(0, i);
    EXPECT_TRUE(succeeds(channel.receive().wait(1s).result));
  }
  reactor->poll();
  EXPECT_EQ(script.doorbells, (std::vector<std::size_t>{kCount, 3}));
}

TEST_F(SharedReceivesOfADevice, WithFewLeftEachIsPostedAtOnce) {
  Channel channel = connected();
  std::vector<Buffer> taken;
  for (std::size_t i = 0; i < kCount - 8; ++i) {
    message(0, i);
    taken.push_back(channel.receive().wait(1s).buffer);
  }
  taken.pop_back();
  EXPECT_EQ(script.doorbells, (std::vector<std::size_t>{kCount, 1}));
}

TEST_F(SharedReceivesOfADevice, QueuePairGoesWhenItHasTakenItsLastReceive) {
  const int before = live();
  {
    const Channel channel = connected(1h);
  }
  reactor->poll();
  EXPECT_NE(live(), before) << "nobody has said yet that it has no more";
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
  event.element.qp = script.queue_pairs.at(0);
  ASSERT_EQ(verbatim_null_raise(event.element.qp->context, &event), 0);
  EXPECT_TRUE(left(before));
}

TEST_F(SharedReceivesOfADevice, WithoutAWordTheQueuePairGoesAfterTheFlushTimeout) {
  const int before = live();
  {
    const Channel channel = connected(5ms);
  }
  EXPECT_TRUE(left(before));
}

TEST_F(SharedReceivesOfADevice, ReceiveThatAQueuePairTookAlongIsPostedAnew) {
  std::optional<Channel> gone = connected();
  Channel stays = connected();
  const int both = live();
  message(1, 1);  // The other channel took the first, and never reports it.
  EXPECT_TRUE(succeeds(stays.receive().wait(1s).result));
  reactor->poll();
  ASSERT_EQ(script.posted.size(), kCount + 1);
  gone.reset();
  ASSERT_TRUE(left(both - 1));
  EXPECT_EQ(script.posted.size(), kCount + 2);
  EXPECT_EQ(reactor->free_receives(), kCount);
  // A completion that comes too late belongs to nobody.
  message(1, 0);
  reactor->poll();
  EXPECT_FALSE(stays.receive().ready());
  // The receive is in use again.
  message(1, kCount + 1);
  EXPECT_TRUE(succeeds(stays.receive().wait(1s).result));
}

TEST_F(SharedReceivesOfADevice, ReceiveThatSomebodyMayStillHaveIsNotPostedAnew) {
  std::optional<Channel> gone = connected();
  Channel stays = connected();
  std::optional<Channel> silent = connected();  // Perhaps in the middle of a message.
  const int all = live();
  message(1, 1);
  EXPECT_TRUE(succeeds(stays.receive().wait(1s).result));
  gone.reset();
  ASSERT_TRUE(left(all - 1));
  reactor->poll();
  EXPECT_EQ(script.posted.size(), kCount + 1);
  message(2, 0);
  const auto came = silent->receive().wait(1s);
  EXPECT_TRUE(succeeds(came.result));
  EXPECT_EQ(came.received().size(), 8u);
}

TEST_F(SharedReceivesOfADevice, FlushedReceiveComesHomeAndEndsItsChannel) {
  Channel channel = connected();
  message(0, 0, IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(fails_with(channel.receive().wait(1s).result, Errc::work_failed));
  EXPECT_EQ(reactor->free_receives(), kCount);
}

TEST_F(SharedReceivesOfADevice, OptionsThatMeanNothingAreRefused) {
  const auto code = [&](const SharedReceiveOptions& options) {
    const auto made = Reactor::create(*domain, {.receives = options});
    return made ? Errc{} : made.error().code;
  };
  EXPECT_EQ(code({.bytes = 0}), Errc::invalid_argument);
  EXPECT_EQ(code({.count = 0}), Errc::invalid_argument);
  EXPECT_EQ(code({.max_unread = 0}), Errc::invalid_argument);
  EXPECT_EQ(code({.bytes = std::size_t{1} << 33}), Errc::limit_exceeded);
  EXPECT_EQ(code({.count = 1u << 30}), Errc::limit_exceeded);
}

// ---- A device that cannot share them ------------------------------------------------------------

int post_own(ibv_qp* queue_pair, ibv_recv_wr* first, ibv_recv_wr**) {
  for (const ibv_recv_wr* each = first; each != nullptr; each = each->next) {
    wire->posted.push_back(each->wr_id);
    wire->holders.push_back(queue_pair);
    if (queue_pair == wire->stopped) wire->flush(wire->posted.size() - 1);
  }
  return 0;
}
int modify(ibv_qp* queue_pair, ibv_qp_attr* attributes, int mask) {
  const int failed = verbatim_null_provider()->modify_qp(queue_pair, attributes, mask);
  if (failed != 0 || (mask & IBV_QP_STATE) == 0 || attributes->qp_state != IBV_QPS_ERR ||
      wire->stopped == queue_pair)
    return failed;
  if (wire->refuses_to_stop) return EIO;
  wire->stopped = queue_pair;
  for (std::size_t i = 0; i < wire->posted.size(); ++i)
    if (wire->holders.at(i) == queue_pair) wire->flush(i);
  return 0;
}

class DeviceWithoutSharedReceives : public SharedReceivesOfADevice {
 protected:
  void SetUp() override {
    knobs.device.max_srq = 0;
    table.modify_qp = &modify;
    SharedReceivesOfADevice::SetUp();
    unsafe::native(domain->context())->ops.post_recv = &post_own;
  }
  /// The device has completed it, so it is no longer flushed.
  void message(std::size_t nth, std::size_t number) {
    SharedReceivesOfADevice::message(nth, number);
    script.holders.at(number) = nullptr;
  }
};

TEST_F(DeviceWithoutSharedReceives, EachChannelHasSixteenOfItsOwn) {
  Channel first = connected();
  Channel second = connected();
  ASSERT_EQ(script.posted.size(), 32u);
  EXPECT_EQ(script.holders.at(0), script.queue_pairs.at(0));
  EXPECT_EQ(script.holders.at(16), script.queue_pairs.at(1));
  for (std::size_t i = 0; i < 4; ++i) {
    message(1, 16 + i);
    const auto came = second.receive().wait(1s);
    EXPECT_TRUE(succeeds(came.result));
    EXPECT_EQ(came.received().size(), 8u);
  }
  EXPECT_FALSE(first.receive().ready());
  EXPECT_EQ(reactor->free_receives(), kCount);
}

TEST_F(DeviceWithoutSharedReceives, ReceivesThatWereUsedArePostedAgain) {
  Channel channel = connected();
  for (std::size_t i = 0; i < std::size_t{10} * kCount; ++i) {
    ASSERT_LT(i, script.posted.size()) << "none is left";
    message(0, i);
    ASSERT_TRUE(succeeds(channel.receive().wait(1s).result)) << i;
  }
  EXPECT_EQ(reactor->free_receives(), kCount);
}

TEST_F(DeviceWithoutSharedReceives, WhoHasTooFewGetsTheNextThatComesHome) {
  std::vector<Channel> channels;
  channels.reserve(5);
  for (std::size_t i = 0; i < 5; ++i) channels.push_back(connected());
  ASSERT_EQ(script.posted.size(), kCount) << "there is none for the fifth";
  message(0, 0);
  EXPECT_TRUE(succeeds(channels[0].receive().wait(1s).result));  // And is dropped.
  ASSERT_EQ(script.posted.size(), kCount + 1);
}

TEST_F(DeviceWithoutSharedReceives, ReceivesOfAChannelThatEndsComeHome) {
  for (int i = 0; i < 20; ++i) {
    script.stopped = nullptr;
    Channel channel = connected();
    message(script.queue_pairs.size() - 1, script.posted.size() - 1);
    reactor->poll();  // Nobody reads it.
    if (i % 2 == 0) channel.cancel();
    reactor->poll();
  }
  reactor->poll();
  EXPECT_EQ(reactor->free_receives(), kCount);
}

TEST_F(DeviceWithoutSharedReceives, ReceivesOfAChannelThatIsEndedByForceComeHome) {
  script.refuses_to_stop = true;
  for (int i = 0; i < 20; ++i) {
    Channel channel = connected();
    ASSERT_EQ(std::ranges::count(script.holders, script.queue_pairs.back()), 16) << i;
    channel.cancel();
    reactor->poll();
    std::ranges::replace(script.holders, script.queue_pairs.back(), nullptr);  // It is destroyed.
  }
}

}  // namespace
}  // namespace verbatim::test
