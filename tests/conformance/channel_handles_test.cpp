// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: handles, time limits, depths and lengths at their edges: every result is reported once,
//       limits hold, a free place is usable, and no order of use loses anything.
// Method: programs that nobody would write on purpose.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/connected_channels.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class ChannelHandles : public ChannelsAndMemory {};

// ---- Results ------------------------------------------------------------------------------------

TEST_F(ChannelHandles, PendingIsReadyWhenItsResultIsThereAndTellsItOnce) {
  auto receiving = right.receive(empty(kPiece));
  EXPECT_TRUE(receiving.posted());
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(receiving.ready());
  auto sending = left.send(filled(kPiece, seed));
  EXPECT_TRUE(eventually([&] { return receiving.ready(); }));
  EXPECT_TRUE(receiving.ready());  // Asking does not take the result.
  auto [buffer, result] = receiving.wait(0ns);
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(buffer.bytes(), seed));
  EXPECT_TRUE(receiving.ready());
  auto [nothing, again] = receiving.wait();
  EXPECT_TRUE(fails_with(again, Errc::stale));
  EXPECT_FALSE(nothing);
  EXPECT_TRUE(succeeds(sending.wait().result));
}

TEST_F(ChannelHandles, OperationIsPolledWithoutWaitingAndItsCopiesAreOne) {
  const auto outcome = right.manual_scope([&](Scope& scope) {
    const Operation receiving = scope.post(Receive{place(0)});
    const Operation copy = receiving;
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(scope.poll(copy));
    EXPECT_TRUE(succeeds(left.send(piece(0))));
    std::optional<Result<Completion>> found;
    EXPECT_TRUE(eventually([&] { return (found = scope.poll(copy)).has_value(); }));
    EXPECT_TRUE(succeeds(*found));
    for (const Operation each : {receiving, copy}) {
      EXPECT_TRUE(fails_with(scope.wait(each), Errc::stale));
      EXPECT_TRUE(fails_with(scope.poll(each).value(), Errc::stale));
      EXPECT_TRUE(fails_with(scope.wait_all(std::span{&each, 1}), Errc::stale));
      EXPECT_EQ(require(scope.wait_any(std::span{&each, 1})), 0u);
    }
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(right.free_receives(), 127u);
}

TEST_F(ChannelHandles, OperationOfAnotherChannelIsStale) {
  if (is_on_reactor()) GTEST_SKIP() << "channels of one Reactor have their slots in common";
  const auto outcome = left.scope([&](Scope& scope) {
    const auto foreign = scope.post(Receive{place(0)});
    static_cast<void>(right.scope(
        [&](Scope& other) { EXPECT_TRUE(fails_with(other.wait(foreign), Errc::stale)); }));
    EXPECT_TRUE(succeeds(right.send(piece(0))));
    EXPECT_TRUE(succeeds(scope.wait(foreign)));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ChannelHandles, WaitAnyFindsARefusedOneAtOnce) {
  const std::vector<GatherElement> elements(64, piece(0));
  const Send many{std::span<const GatherElement>{elements}};
  if (left.limits().max_send_elements >= elements.size()) GTEST_SKIP() << "the device takes all";
  const auto outcome = left.scope([&](Scope& scope) {
    const std::array both{scope.post(Receive{place(0)}), scope.post(many)};
    EXPECT_FALSE(both[1].posted());
    EXPECT_EQ(require(scope.wait_any(both)), 1u);
    EXPECT_TRUE(fails_with(scope.poll(both[1]).value(), Errc::limit_exceeded));
    EXPECT_TRUE(fails_with(scope.wait(both[1]), Errc::stale));
    scope.post_detached(many);
    EXPECT_TRUE(succeeds(right.send(piece(0))));
    EXPECT_TRUE(succeeds(scope.wait(both[0])));
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(outcome.error().operations.size(), 1u);
  EXPECT_EQ(outcome.error().operations[0].code, Errc::limit_exceeded);
  EXPECT_FALSE(left.cause());  // A post that was refused breaks nothing.
  exchange(left, right);
}

TEST_F(ChannelHandles, DroppingAHandleNeitherWaitsNorBreaksAnything) {
  const auto start = Clock::now();
  {
    const auto dropped = right.receive(empty(kPiece));
    auto over = right.receive(empty(kPiece));
    over = right.receive(empty(kPiece));  // The first of the two is dropped.
  }
  EXPECT_LT(Clock::now() - start, 5s);
  EXPECT_FALSE(right.cause());
  EXPECT_EQ(right.free_receives(), 124u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(succeeds(left.send(piece(0))));
  EXPECT_TRUE(
      eventually([&] { return require(right.poll()) == 0 && right.free_receives() == 127; }));
  exchange(left, right);
}

// ---- Scopes in scopes, channels beside channels -------------------------------------------------

TEST_F(ChannelHandles, InnerScopeMayTakeAResultOfTheOuterOne) {
  const auto outcome = right.manual_scope([&](Scope& outer) {
    const auto outside = outer.post(Receive{place(0)});
    const auto inner = right.scope([&](Scope& scope) {
      static_cast<void>(scope.post(Receive{place(1)}));
      for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(succeeds(left.send(piece(i))));
      EXPECT_TRUE(succeeds(scope.wait(outside)));
    });
    EXPECT_TRUE(inner.has_value());
    EXPECT_EQ(std::memcmp(sink.data(), source.data(), 2 * kPiece), 0);  // It has waited.
    EXPECT_TRUE(fails_with(outer.wait(outside), Errc::stale));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(right.free_receives(), 127u);
}

TEST_F(ChannelHandles, ScopesOfBothEndsMayBeInsideEachOther) {
  const auto outcome = right.scope([&](Scope& receiver) {
    static_cast<void>(receiver.post(Receive{place(0)}));
    const auto inner = left.scope([&](Scope& sender) {
      sender.post_detached(Send{piece(0)});
      return right.scope([&](Scope& third) {
        static_cast<void>(third.post(Receive{place(1)}));
        sender.post_detached(Send{piece(1)});
        return 3;
      });
    });
    EXPECT_EQ(inner.value(), 3);
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(std::memcmp(sink.data(), source.data(), 2 * kPiece), 0);
}

TEST_F(ChannelHandles, ChannelMayMoveWhileItsWorkIsInFlight) {
  auto receiving = right.receive(empty(kPiece));
  std::optional<Channel> moved;
  const auto outcome = right.scope([&](Scope& scope) {
    const auto second = scope.post(Receive{place(0)});
    moved.emplace(std::move(right));
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(succeeds(left.send(piece(i))));
    EXPECT_TRUE(succeeds(scope.wait(second)));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(succeeds(receiving.wait().result));
  EXPECT_EQ(moved->free_receives(), 127u);
  exchange(left, *moved);
}

TEST_F(ChannelHandles, ChannelsOfOneDomainDoNotDisturbEachOther) {
  auto [other_left, other_right] = require(connect_pair(domain));
  auto first = right.receive(empty(kPiece));
  auto second = other_right.receive(empty(kPiece));
  EXPECT_TRUE(succeeds(other_left.send(filled(kPiece, seed + 2)).wait().result));
  EXPECT_TRUE(succeeds(left.send(filled(kPiece, seed + 1)).wait().result));
  const auto later = second.wait();
  const auto earlier = first.wait();
  EXPECT_TRUE(holds(later.buffer.bytes(), seed + 2));
  EXPECT_TRUE(holds(earlier.buffer.bytes(), seed + 1));
  other_left.cancel();
  EXPECT_TRUE(fails_with(other_left.poll(), Errc::cancelled));
  exchange(left, right);
}

TEST_F(ChannelHandles, ScopesInALoopLoseNothing) {
  SharedRegion window = require(domain.allocate_shared(kPiece, Access::remote_write));
  for (unsigned i = 0; i < 1000 * stress_factor(); ++i) {
    const auto outcome = left.scope([&](Scope& scope) {
      static_cast<void>(scope.post(Write{piece(0), window.remote()}));
      scope.post_detached(Write{piece(1), window.remote()});
    });
    ASSERT_TRUE(outcome.has_value()) << i;
    ASSERT_EQ(left.free_sends(), 127u) << i;
  }
}

TEST_F(ChannelHandles, RecyclingInsideAScopeIsRefused) {
  const auto outcome = left.scope([&](Scope&) {
    left.cancel();
    EXPECT_TRUE(fails_with(left.poll(), Errc::cancelled));
    EXPECT_TRUE(fails_with(std::move(left).recycle(), Errc::busy));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(succeeds(std::move(left).recycle()));
}

// ---- Time limits --------------------------------------------------------------------------------

TEST_F(ChannelHandles, AnyTimeLimitIsGoodForAResultThatIsThere) {
  constexpr Timeout kLimits[] = {0ns, 1ns, -1ns, Timeout::min(), Timeout::max()};
  for (const Timeout limit : kLimits) {
    auto receiving = right.receive(empty(kPiece));
    auto sending = left.send(filled(kPiece, seed));
    EXPECT_TRUE(eventually([&] { return receiving.ready() && sending.ready(); }));
    EXPECT_TRUE(succeeds(sending.wait(limit).result));
    EXPECT_TRUE(succeeds(receiving.wait(limit).result));
  }
}

TEST_F(ChannelHandles, LongestLimitsWait) {
  if (is_on_reactor()) GTEST_SKIP() << "channels of one Reactor are of one thread";
  for (const Deadline limit :
       {Deadline{std::chrono::nanoseconds::max()}, Deadline{std::chrono::hours::max()}, kForever,
        Deadline{}, Deadline{Deadline::Clock::time_point::max()},
        Deadline{Deadline::Clock::now() + std::chrono::hours{1}}}) {
    auto receiving = right.receive(empty(kPiece));
    std::jthread sender([&] { EXPECT_TRUE(succeeds(left.send(piece(0)))); });
    EXPECT_TRUE(succeeds(receiving.wait(limit).result));
  }
}

TEST_F(ChannelHandles, WhatLiesInThePastIsNow) {
  const auto deadline = Deadline::Clock::now() - std::chrono::milliseconds{1};
  for (const Deadline limit : {Deadline{deadline - Deadline::Clock::now()}, Deadline{deadline}}) {
    auto [sender, receiver] = require(connect_pair(domain));
    const auto before = Deadline::Clock::now();
    EXPECT_TRUE(fails_with(receiver.receive(empty(kPiece)).wait(limit).result, Errc::timed_out));
    EXPECT_LT(Deadline::Clock::now() - before, std::chrono::seconds{5});  // The default is 10 s.
  }
}

TEST_F(ChannelHandles, WaitingAWhileEndsNothing) {
  if (is_on_reactor()) GTEST_SKIP() << "channels of one Reactor are of one thread";
  auto receiving = right.receive(empty(kPiece));
  EXPECT_FALSE(receiving.ready_within(std::chrono::milliseconds{2}));
  EXPECT_FALSE(receiving.ready_within(std::chrono::nanoseconds{-1}));
  const auto outcome = left.scope([&](Scope& scope) {
    const std::array both{scope.post(Receive{place(0)}), scope.post(Receive{place(1)})};
    EXPECT_FALSE(scope.any_within(std::chrono::milliseconds{2}, both));
    EXPECT_FALSE(scope.any_within(std::chrono::milliseconds{2}, {}));
    EXPECT_TRUE(succeeds(right.send(piece(0))));
    EXPECT_EQ(scope.any_within(kForever, both), 0u);
    EXPECT_TRUE(succeeds(scope.wait(both[0])));
    EXPECT_TRUE(succeeds(right.send(piece(1))));
    EXPECT_TRUE(succeeds(scope.wait(both[1])));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_FALSE(left.cause() || right.cause());
  std::jthread sender([&] { EXPECT_TRUE(succeeds(left.send(piece(2)))); });
  EXPECT_TRUE(receiving.ready_within(kForever));
  EXPECT_TRUE(succeeds(receiving.wait().result));
}

TEST_F(ChannelHandles, WaitForEverIsEndedByACancel) {
  auto receiving = right.receive(empty(kPiece));
  std::jthread other([canceller = right.canceller()] { canceller.cancel(); });
  EXPECT_TRUE(fails_with(receiving.wait(kForever).result, Errc::cancelled));
}

TEST_F(ChannelHandles, LimitOfZeroEndsWhatIsNotThere) {
  EXPECT_TRUE(fails_with(right.receive(empty(kPiece)).wait(0ns).result, Errc::timed_out));
  EXPECT_EQ(right.cause()->code, Errc::timed_out);
}

TEST_F(ChannelHandles, DeadlineThatMeetsTheCompletionIsOneOrTheOther) {
  Random random{seed};
  for (int round = 0; round < 30; ++round) {
    auto [sender, receiver] = require(connect_pair(domain, {.flush_timeout = 500ms}));
    auto receiving = receiver.receive(empty(4096));
    Buffer message = filled(4096, seed);
    auto sending = sender.send(std::move(message));
    auto [buffer, result] = receiving.wait(std::chrono::microseconds{random.up_to(300)});
    ASSERT_TRUE(buffer);
    const std::vector<std::byte> seen(buffer.bytes().begin(), buffer.bytes().end());
    if (result) {
      EXPECT_TRUE(holds(buffer.bytes(), seed));
    } else {
      EXPECT_TRUE(fails_with(result, Errc::timed_out));
    }
    sender.cancel();
    static_cast<void>(sending.wait());
    EXPECT_TRUE(std::ranges::equal(seen, buffer.bytes())) << "it landed after the deadline";
  }
}

TEST_F(ChannelHandles, CancelBeforeTheConnectionIsHeededAfterIt) {
  const Canceller canceller = left.canceller();
  EXPECT_TRUE(succeeds(left.close()));
  auto again = require(std::move(left).recycle());
  canceller.cancel();  // Nothing is connected.
  const Endpoint peer = require(PreparedChannel::create(domain)).endpoint();
  Channel connected = require(std::move(again).connect(peer));
  EXPECT_TRUE(fails_with(connected.send(piece(0)), Errc::broken));
  EXPECT_EQ(connected.cause()->code, Errc::cancelled);
}

// ---- Lengths ------------------------------------------------------------------------------------

TEST_F(ChannelHandles, EmptyMessagesArriveInEveryForm) {
  SharedRegion window =
      require(domain.allocate_shared(kPiece, Access::remote_read | Access::remote_write));
  auto receiving = receives(4);
  EXPECT_TRUE(succeeds(left.run(Send{})));
  EXPECT_TRUE(succeeds(left.send(from.gather(std::span{source}.first(0)))));
  EXPECT_TRUE(succeeds(left.send(empty(8), {.offset = 8, .length = 0}).wait().result));
  EXPECT_TRUE(left.scope([](Scope& scope) { scope.post_detached(Send{}); }).has_value());
  for (auto& each : receiving) EXPECT_EQ(require(each.wait().result).byte_count(), 0u);
  EXPECT_TRUE(succeeds(left.write(from.gather(std::span{source}.first(0)), window.remote())));
  EXPECT_TRUE(succeeds(left.read(into.scatter(std::span{sink}.first(0)), window.remote())));
  // And into no memory.
  auto nowhere = right.receive(empty(8), {.offset = 0, .length = 0});
  EXPECT_TRUE(succeeds(left.run(Send{})));
  EXPECT_EQ(require(nowhere.wait().result).byte_count(), 0u);
}

// ---- Depths -------------------------------------------------------------------------------------

TEST_F(ChannelHandles, BatchMayFillTheQueueAndNotMore) {
  SharedRegion window = require(domain.allocate_shared(kPiece, Access::remote_write));
  const Write<1> work{piece(0), window.remote()};
  const std::vector<Write<1>> all(127, work);
  const std::vector<Write<1>> more(128, work);
  for (int round = 0; round < 3; ++round) {
    const auto outcome = left.scope([&](Scope& scope) {
      EXPECT_TRUE(fails_with(scope.wait(scope.post(more)), Errc::limit_exceeded));
      EXPECT_EQ(left.free_sends(), 127u);
      const auto batch = scope.post(all);
      EXPECT_EQ(left.free_sends(), 0u);
      EXPECT_TRUE(fails_with(scope.wait(scope.post(work)), Errc::would_block));
      EXPECT_TRUE(succeeds(scope.wait(batch)));
      EXPECT_EQ(left.free_sends(), 127u);
      const auto one = scope.post(work);
      EXPECT_TRUE(fails_with(scope.wait(scope.post(all)), Errc::would_block));
      EXPECT_TRUE(succeeds(scope.wait(one)));
      EXPECT_TRUE(
          fails_with(scope.wait(scope.post(std::span<const Write<1>>{})), Errc::invalid_argument));
    });
    EXPECT_TRUE(outcome.has_value());
  }
}

TEST_F(ChannelHandles, EveryDepthFromOneOnIsUsableToTheEnd) {
  for (const std::uint32_t depth : {1u, 2u, 3u, 5u, 64u}) {
    auto [from_here, to_there] =
        require(connect_pair(domain, {.max_sends = depth, .max_receives = depth}));
    for (int round = 0; round < 3; ++round) {
      std::vector<Pending<Buffer>> all;
      for (std::uint32_t i = 0; i < depth; ++i) all.push_back(to_there.receive(empty(8)));
      EXPECT_TRUE(fails_with(to_there.receive(empty(8)).wait().result, Errc::would_block));
      for (std::uint32_t i = 0; i < depth; ++i) all.push_back(from_here.send(filled(8, seed)));
      EXPECT_TRUE(fails_with(from_here.send(filled(8, seed)).wait().result, Errc::would_block));
      for (auto& each : all) EXPECT_TRUE(succeeds(each.wait().result)) << depth;
      EXPECT_EQ(from_here.free_sends(), depth);
      EXPECT_EQ(to_there.free_receives(), depth);
    }
  }
}

// ---- Before the connection ----------------------------------------------------------------------

TEST_F(ChannelHandles, RefusedConnectionChangesNothing) {
  auto prepared = require(PreparedChannel::create(domain));
  auto receiving = prepared.receive(empty(kPiece));
  auto other = require(PreparedChannel::create(domain));
  Endpoint wrong = other.endpoint();
  wrong.type = QueuePairType::unreliable_connection;
  EXPECT_TRUE(fails_with(std::move(prepared).connect(wrong), Errc::incompatible));
  auto [there, here] = join(std::move(other), std::move(prepared));
  EXPECT_TRUE(succeeds(there.send(filled(kPiece, seed)).wait().result));
  auto [buffer, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(buffer.bytes(), seed));
}

TEST_F(ChannelHandles, PeerMayDoWhatTheOptionsAllowAndNotMore) {
  SharedRegion window =
      require(domain.allocate_shared(kPiece, Access::remote_read | Access::remote_write));
  auto [reader, owner] = require(connect_pair(domain, {.access = Access::remote_read}));
  EXPECT_TRUE(succeeds(reader.read(place(0), window.remote())));
  const auto refused = reader.write(piece(0), window.remote());
  ASSERT_TRUE(fails_with(refused, Errc::work_failed));
  EXPECT_TRUE(all_equal(window.quiescent_bytes(), std::byte{}));
}

}  // namespace
}  // namespace verbatim::test
