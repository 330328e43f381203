// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: completions reach every thread that polls or sleeps, however queues are shared; no wake-up
//       is lost; nothing hangs.
// Method: shared completion queues; threads that sleep for every message of a long ping-pong.
// Covers: soft/completion_channel.cpp, soft/completion_queue.cpp, soft/own_ring.cpp
#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <map>
#include <set>
#include <vector>

#include "support/connected_pair.hpp"

namespace verbatim::test {
namespace {

using std::chrono::milliseconds;

TEST(SharedCompletionQueue, ServesTwoQueuePairs) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue shared = completion_queue(domain.context());
  const PairOptions options{
      .remote = [&](QueuePairOptions& each) { each.receive_completions = shared; }};
  ConnectedPair first(domain, options);
  ConnectedPair second(domain, options);
  for (std::uint64_t id = 0; id < 4; ++id) {
    first.remote.post(Receive{}, id);
    second.remote.post(Receive{}, 10 + id);
  }
  for (std::uint64_t id = 0; id < 4; ++id) {
    second.local.post(send_immediate(2), id);
    first.local.post(send_immediate(1), id);
  }
  // The two have no order between them, but each keeps its own order.
  std::map<QpNumber, std::vector<Completion>> found;
  for (const Completion& each : poll_many(shared, 8)) found[each.queue_pair()].push_back(each);
  EXPECT_TRUE(succeeded_in_order(found[first.remote.queue_pair.number()], 0));
  EXPECT_TRUE(succeeded_in_order(found[second.remote.queue_pair.number()], 10));
  EXPECT_EQ(found[first.remote.queue_pair.number()].size(), 4u);
  for (const Completion& each : found[first.remote.queue_pair.number()])
    EXPECT_EQ(each.immediate(), 1u);
}

TEST(SharedCompletionQueue, ServesSendsAndReceives) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  CompletionQueue shared = completion_queue(domain.context());
  ConnectedPair pair(domain, {.both = [&](QueuePairOptions& options) {
                       options.send_completions = shared;
                       options.receive_completions = shared;
                     }});
  pair.remote.post(Receive{}, 1);
  pair.local.post(Send{}, 2);
  std::map<WrId, Opcode> found;
  for (const Completion& each : poll_many(shared, 2))
    found[each.id()] = each.opcode().value_or(Opcode::other);
  EXPECT_EQ(found[WrId{1}], Opcode::receive);
  EXPECT_EQ(found[WrId{2}], Opcode::send);
}

TEST(Poll, TakesAsManyAsFitAndLosesNone) {
  ConnectedPair pair;
  for (std::uint64_t id = 0; id < 10; ++id) pair.remote.post(Receive{}, id);
  for (std::uint64_t id = 0; id < 10; ++id) pair.local.post(Send{}, id);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 10), 0));
  std::vector<Completion> all;
  std::array<Completion, 4> some;
  ASSERT_TRUE(eventually([&] {
    const std::size_t count = require(pair.remote.receives.poll(some));
    EXPECT_LE(count, some.size());
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
    return all.size() >= 10;
  }));
  EXPECT_TRUE(succeeded_in_order(all, 0));
  EXPECT_EQ(require(pair.remote.receives.poll(some)), 0u);
}

TEST(Wait, TimesOutWhenNothingComes) {
  ConnectedPair pair{{.channels = true}};
  std::array<Completion, 1> found;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(fails_with(pair.local.receives.wait(found, milliseconds{30}), Errc::timed_out));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds{30});
  EXPECT_TRUE(fails_with(pair.local.receives.wait(found, milliseconds{0}), Errc::timed_out));
  exchange(pair);
}

TEST(Wait, ReturnsWhatIsThereAlready) {
  ConnectedPair pair{{.channels = true}};
  pair.remote.post(Receive{}, 1);
  pair.local.post(Send{}, 2);
  poll_ok(pair.local.sends);
  std::array<Completion, 4> found;
  ASSERT_EQ(require(pair.remote.receives.wait(found, kPatience)), 1u);
  EXPECT_EQ(found[0].id(), WrId{1});
}

TEST(Wait, WakesUp) {
  ConnectedPair pair{{.channels = true}};
  pair.remote.post(Receive{}, 1);
  auto sleeper = std::async(std::launch::async, [&] {
    std::array<Completion, 1> found;
    require(pair.remote.receives.wait(found, kPatience));
    return found[0].immediate();
  });
  // Most likely it sleeps by now. In either case it must see the message.
  EXPECT_EQ(sleeper.wait_for(milliseconds{50}), std::future_status::timeout);
  pair.local.post(send_immediate(77), 2);
  EXPECT_EQ(sleeper.get(), 77u);
}

TEST(Wait, WithoutAChannelIsRefused) {
  ConnectedPair pair;
  std::array<Completion, 1> found;
  EXPECT_TRUE(fails_with(pair.local.sends.wait(found, milliseconds{1}), Errc::invalid_argument));
  EXPECT_TRUE(fails_with(pair.local.sends.arm(), Errc::invalid_argument));
}

/// Bounces a number `rounds` times with the other side. Sleeps for every completion.
void play(Side& side, std::uint32_t rounds, bool serve) {
  std::array<Completion, 1> found;
  const auto next_on = [&](CompletionQueue& queue) -> const Completion& {
    require(queue.wait(found, kPatience));
    if (!found[0].ok()) give_up(to_string(found[0].error()), Where::current());
    return found[0];
  };
  for (std::uint32_t i = 0; i < rounds; ++i) {
    if (serve) side.post(send_immediate(i), i);
    if (next_on(side.receives).immediate() != i) give_up("wrong number", Where::current());
    side.post(Receive{}, i);
    if (!serve) side.post(send_immediate(i), i);
    next_on(side.sends);
  }
}

TEST(Wait, LosesNoWakeUpInALongPingPong) {
  ConnectedPair pair{{.channels = true}};
  const std::uint32_t rounds = 2000 * stress_factor();
  pair.local.post(Receive{}, 0);
  pair.remote.post(Receive{}, 0);
  auto other = std::async(std::launch::async, [&] { play(pair.remote, rounds, false); });
  play(pair.local, rounds, true);
  other.get();
}

TEST(Solicited, OnlyWakesWhoAskedForIt) {
  ConnectedPair pair;
  const CompletionChannel channel = require(pair.context.create_completion_channel());
  CompletionQueue queue = completion_queue(pair.context, 64, channel);
  ConnectedPair listening(pair.domain,
                          {.remote = [&](QueuePairOptions& o) { o.receive_completions = queue; }});
  for (std::uint64_t id = 0; id < 3; ++id) listening.remote.post(Receive{}, id);
  require(queue.arm(Arm::solicited_only));
  listening.local.post(send_immediate(0), 10);
  poll_ok(listening.local.sends);
  EXPECT_TRUE(fails_with(channel.wait(milliseconds{100}), Errc::timed_out));
  listening.local.post(Send<0>{.options = {.solicited = true}}, 11);
  EXPECT_EQ(require(channel.wait(kPatience)), 1u);
  EXPECT_TRUE(queue.take_signal());
  EXPECT_TRUE(succeeded_in_order(poll_many(queue, 2), 0));
}

TEST(Solicited, WakesAlsoWhoAskedForAny) {
  ConnectedPair pair{{.channels = true}};
  pair.remote.post(Receive{}, 1);
  require(pair.remote.receives.arm());
  pair.local.post(Send<0>{.options = {.solicited = true}}, 2);
  std::array<Completion, 1> found;
  EXPECT_EQ(require(pair.remote.receives.wait(found, kPatience)), 1u);
}

TEST(CompletionChannel, ServesTwoQueuesAndSaysWhich) {
  const ProtectionDomain domain = require(open_context().allocate_domain());
  const CompletionChannel channel = require(domain.context().create_completion_channel());
  CompletionQueue first = completion_queue(domain.context(), 64, channel);
  CompletionQueue second = completion_queue(domain.context(), 64, channel);
  ConnectedPair a(domain, {.remote = [&](QueuePairOptions& o) { o.receive_completions = first; }});
  ConnectedPair b(domain, {.remote = [&](QueuePairOptions& o) { o.receive_completions = second; }});
  a.remote.post(Receive{}, 1);
  b.remote.post(Receive{}, 2);
  require(first.arm());
  require(second.arm());
  b.local.post(Send{}, 3);
  EXPECT_EQ(require(channel.wait(kPatience)), 1u);
  EXPECT_FALSE(first.take_signal());
  EXPECT_TRUE(second.take_signal());
  EXPECT_FALSE(second.take_signal()) << "a signal is taken once";
  a.local.post(Send{}, 4);
  EXPECT_EQ(require(channel.wait(kPatience)), 1u);
  EXPECT_TRUE(first.take_signal());
  EXPECT_TRUE(succeeded(poll_one(first)));
  EXPECT_TRUE(succeeded(poll_one(second)));
}

TEST(CompletionChannel, DescriptorIsReadableWhenAnEventWaits) {
  ConnectedPair pair;
  const CompletionChannel channel = require(pair.context.create_completion_channel());
  CompletionQueue queue = completion_queue(pair.context, 64, channel);
  ConnectedPair watched(pair.domain,
                        {.local = [&](QueuePairOptions& o) { o.send_completions = queue; }});
  pollfd entry{.fd = channel.fd(), .events = POLLIN, .revents = 0};
  watched.remote.post(Receive{}, 1);
  require(queue.arm());
  EXPECT_EQ(poll(&entry, 1, 0), 0);
  watched.local.post(Send{}, 2);
  EXPECT_EQ(poll(&entry, 1, static_cast<int>(milliseconds{kPatience}.count())), 1);
  EXPECT_EQ(require(channel.wait(milliseconds{0})), 1u);
  EXPECT_EQ(poll(&entry, 1, 0), 0) << "the event was taken";
}

TEST(CompletionChannel, RaisesOneEventPerArming) {
  ConnectedPair pair;
  const CompletionChannel channel = require(pair.context.create_completion_channel());
  CompletionQueue queue = completion_queue(pair.context, 64, channel);
  ConnectedPair watched(pair.domain,
                        {.remote = [&](QueuePairOptions& o) { o.receive_completions = queue; }});
  require(queue.arm());
  for (std::uint64_t id = 0; id < 3; ++id) {
    watched.remote.post(Receive{}, id);
    watched.local.post(Send{}, id);
    poll_ok(watched.local.sends);
  }
  EXPECT_EQ(require(channel.wait(kPatience)), 1u);
  EXPECT_TRUE(fails_with(channel.wait(milliseconds{50}), Errc::timed_out));
  EXPECT_TRUE(succeeded_in_order(poll_many(queue, 3), 0));
}

// Destroying a queue waits until its events are acknowledged. The watchdog of the suite ends a test
// that hangs.
TEST(CompletionQueue, WithAnUnreadEventCanBeDestroyed) {
  for (int round = 0; round < 5; ++round) {
    ConnectedPair pair{{.channels = true}};
    pair.remote.post(Receive{}, 1);
    require(pair.remote.receives.arm());
    require(pair.local.sends.arm());
    pair.local.post(Send{}, 2);
    poll_ok(pair.local.sends);
    poll_ok(pair.remote.receives);
  }
}

}  // namespace
}  // namespace verbatim::test
