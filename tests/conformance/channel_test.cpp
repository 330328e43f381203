// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: blocking, owned and scoped operations of a channel move the right bytes, return every
//       buffer and every result, and refuse what does not fit.
// Method: two channels of this process, connected; each operation in each of its forms.
// Covers: channel/channel.cpp
#include "verbatim/channel/channel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "conformance/connected_channels.hpp"
#include "support/throwing_contracts.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

class ChannelTest : public ConnectedChannels {};

TEST_F(ChannelTest, OwnedSendAndReceiveGiveTheBuffersBack) {
  auto receiving = right.receive(empty(100));
  auto sending = left.send(filled(100, seed));
  EXPECT_TRUE(sending.posted());
  auto [sent, send_result] = sending.wait();
  EXPECT_TRUE(succeeds(send_result));
  EXPECT_TRUE(sent);
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(result->byte_count(), 100u);
  EXPECT_EQ(result->opcode(), Opcode::receive);
  EXPECT_TRUE(holds(received.bytes(), seed));
}

TEST_F(ChannelTest, OwnedOperationOnAPartOfTheBuffer) {
  auto receiving = right.receive(empty(64), {.offset = 16, .length = 32});
  auto sending = left.send(filled(64, seed), {.offset = 8, .length = 20}, {.immediate = 0xabcd});
  Buffer sent = std::move(sending.wait().buffer);
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(result->byte_count(), 20u);
  EXPECT_EQ(result->immediate(), 0xabcdu);
  EXPECT_EQ(std::memcmp(received.bytes().data() + 16, sent.bytes().data() + 8, 20), 0);
  EXPECT_TRUE(all_equal(received.bytes().first(16), std::byte{}));
}

TEST_F(ChannelTest, FencedSendTakesWhatAReadBeforeItBrings) {
  SharedRegion source = require(domain.allocate_shared(kPiece, Access::remote_read));
  fill(source.quiescent_bytes(), seed);
  auto receiving = right.receive(empty(kPiece));
  Buffer memory = empty(kPiece);
  const auto outcome = left.scope([&](Scope& scope) {
    scope.post_detached(Read{memory.scatter(), source.remote()});
    scope.post_detached(Send{memory.gather(), {.fenced = true}});  // No overlap: it waits.
  });
  EXPECT_TRUE(outcome.has_value());
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(received.bytes(), seed));
}

TEST_F(ChannelTest, SeveralBuffersAreOneMessage) {
  auto receiving = right.receive(std::array{empty(10), empty(30)});
  auto sending = left.send(std::array{filled(20, seed), filled(15, seed + 1)});
  auto [sent, went] = sending.wait();
  ASSERT_TRUE(succeeds(went));
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(result->byte_count(), 35u);
  const auto joined = [](const std::array<Buffer, 2>& buffers) {
    std::vector<std::byte> all;
    for (const Buffer& each : buffers)
      all.insert(all.end(), each.bytes().begin(), each.bytes().end());
    return all;
  };
  std::vector<std::byte> arrived = joined(received);
  arrived.resize(35);  // Of 40.
  EXPECT_EQ(joined(sent), arrived);
}

TEST_F(ChannelTest, BlockingSendAndReceiveInTwoThreads) {
  if (is_on_reactor()) GTEST_SKIP() << "channels of one Reactor are of one thread";
  Buffer source = filled(4000, seed);
  Buffer sink = empty(4000);
  std::thread receiver([&] {
    const auto done = right.receive(sink.scatter());
    EXPECT_TRUE(succeeds(done));
  });
  EXPECT_TRUE(succeeds(left.send(source.gather())));
  receiver.join();
  EXPECT_TRUE(holds(sink.bytes(), seed));
}

TEST_F(ChannelTest, WriteAndReadReachTheOtherSidesMemory) {
  SharedRegion window =
      require(domain.allocate_shared(256, Access::remote_read | Access::remote_write));
  Buffer source = filled(200, seed);
  ASSERT_TRUE(succeeds(left.write(source.gather(), window.remote())));
  EXPECT_TRUE(holds(window.quiescent_bytes().first(200), seed));
  Buffer sink = empty(200);
  ASSERT_TRUE(succeeds(left.read(sink.scatter(), *window.remote().sub_region(0, 200))));
  EXPECT_TRUE(holds(sink.bytes(), seed));
  auto writing = left.write(std::move(source), *window.remote().sub_region(56, 200));
  EXPECT_TRUE(succeeds(writing.wait().result));
  auto reading = left.read(std::move(sink), *window.remote().sub_region(56, 200));
  auto [read, result] = reading.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(read.bytes(), seed));
}

TEST_F(ChannelTest, AtomicsReturnTheValueBefore) {
  if (!capabilities().atomics) GTEST_SKIP() << "the device has no atomics";
  SharedRegion counter = require(domain.allocate_shared(64, Access::remote_atomic));
  counter.store_release<std::uint64_t>(8, 40);
  const RemoteAtomic at = require(RemoteAtomic::at(counter.remote(), 8));
  EXPECT_EQ(require(left.fetch_add(at, 2)), 40u);
  EXPECT_EQ(require(left.compare_swap(at, 42, 7)), 42u);
  EXPECT_EQ(require(left.compare_swap(at, 42, 8)), 7u);
  EXPECT_EQ(counter.load_acquire<std::uint64_t>(8), 7u);
}

TEST_F(ChannelTest, ManyInFlightComeBackInAnyOrderOfWaiting) {
  constexpr std::size_t kCount = 50;
  std::vector<Pending<Buffer>> receiving;
  std::vector<Pending<Buffer>> sending;
  for (std::size_t i = 0; i < kCount; ++i) receiving.push_back(right.receive(empty(64)));
  for (std::size_t i = 0; i < kCount; ++i) sending.push_back(left.send(filled(64, seed + i)));
  for (std::size_t i = kCount; i-- > 0;) {
    auto [buffer, result] = receiving[i].wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(holds(buffer.bytes(), seed + i)) << i;
  }
  for (auto& each : sending) EXPECT_TRUE(succeeds(each.wait().result));
}

TEST_F(ChannelTest, ReceiveMayBePostedBeforeTheChannelIsConnected) {
  auto first = require(PreparedChannel::create(domain));
  auto second = require(PreparedChannel::create(domain));
  auto receiving = second.receive(empty(32));
  const Endpoint first_endpoint = first.endpoint();
  const Endpoint second_endpoint = second.endpoint();
  Channel from = require(std::move(first).connect(second_endpoint));
  Channel to = require(std::move(second).connect(first_endpoint));
  EXPECT_TRUE(succeeds(from.send(filled(32, seed)).wait().result));
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(received.bytes(), seed));
}

TEST_F(ChannelTest, DroppedHandleKeepsTheBufferUntilItsCompletion) {
  {
    const auto dropped = left.send(filled(64, seed));
  }  // The peer has no receive yet.
  auto receiving = right.receive(empty(64));
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_TRUE(holds(received.bytes(), seed));
  EXPECT_TRUE(eventually([&] {
    static_cast<void>(left.poll());
    return left.free_sends() == 127;
  }));
}

TEST_F(ChannelTest, MovedChannelKeepsItsOperations) {
  auto receiving = right.receive(empty(64));
  auto sending = left.send(filled(64, seed));
  Channel moved = std::move(left);
  Channel moved_right = std::move(right);
  EXPECT_TRUE(succeeds(sending.wait().result));
  EXPECT_TRUE(succeeds(receiving.wait().result));
  auto again = moved_right.receive(empty(8));
  EXPECT_TRUE(succeeds(moved.send(filled(8, seed)).wait().result));
  EXPECT_TRUE(succeeds(again.wait().result));
}

TEST_F(ChannelTest, HandleOutlivesTheChannel) {
  auto receiving = right.receive(empty(64));
  auto sending = left.send(filled(64, seed));
  {
    const Channel gone = std::move(left);
  }
  {
    const Channel gone = std::move(right);
  }
  auto [sent, result] = sending.wait();
  EXPECT_TRUE(sent);
  EXPECT_TRUE(succeeds(result));
  auto [received, received_result] = receiving.wait();
  EXPECT_TRUE(received);
  EXPECT_TRUE(received_result.has_value() || received_result.error() == Errc::closed);
}

TEST_F(ChannelTest, UnmatchedReceiveOfADestroyedChannelIsClosed) {
  auto receiving = right.receive(empty(64));
  {
    const Channel gone = std::move(right);
  }
  auto [received, result] = receiving.wait();
  EXPECT_TRUE(received);
  EXPECT_TRUE(fails_with(result, Errc::closed));
}

TEST_F(ChannelTest, RefusedPostGivesTheBufferBackAtOnce) {
  std::array<Buffer, 5> many{empty(8), empty(8), empty(8), empty(8), empty(8)};
  if (left.limits().max_send_elements >= 5) GTEST_SKIP() << "the device gave more elements";
  auto sending = left.send(std::move(many));
  EXPECT_FALSE(sending.posted());
  auto [buffers, result] = sending.wait();
  EXPECT_TRUE(fails_with(result, Errc::limit_exceeded));
  EXPECT_TRUE(buffers[4]);
  EXPECT_FALSE(left.cause());
}

TEST_F(ChannelTest, WaitingTwiceIsStale) {
  auto receiving = right.receive(empty(8));
  auto sent = left.send(filled(8, seed));
  auto& sending = sent;  // Otherwise clang would not let it be used again.
  EXPECT_TRUE(succeeds(sending.wait().result));
  EXPECT_TRUE(fails_with(sending.wait().result, Errc::stale));
  EXPECT_TRUE(succeeds(receiving.wait().result));
}

TEST_F(ChannelTest, BufferUnderAViewCannotBePosted) {
  const ThrowingContracts contracts;
  Buffer buffer = filled(8, seed);
  buffer.with([&](std::span<std::byte>) {
    EXPECT_THROW(static_cast<void>(left.send(std::move(buffer))), ContractViolation);
  });
}

class SmallChannelTest : public ConnectedChannels {
 protected:
  SmallChannelTest() : ConnectedChannels({.max_sends = 4, .max_receives = 4}) {}
};

TEST_F(SmallChannelTest, FullQueueIsWouldBlockAndLosesNothing) {
  std::vector<Pending<Buffer>> sending;
  for (int i = 0; i < 4; ++i) sending.push_back(left.send(filled(8, seed)));
  auto fifth = left.send(filled(8, seed));
  EXPECT_FALSE(fifth.posted());
  auto [buffer, result] = fifth.wait();
  EXPECT_TRUE(fails_with(result, Errc::would_block));
  EXPECT_TRUE(buffer);
  EXPECT_EQ(left.free_sends(), 0u);
  std::vector<Pending<Buffer>> receiving;
  for (int i = 0; i < 4; ++i) receiving.push_back(right.receive(empty(8)));
  for (auto& each : sending) EXPECT_TRUE(succeeds(each.wait().result));
  for (auto& each : receiving) EXPECT_TRUE(succeeds(each.wait().result));
  EXPECT_EQ(left.free_sends(), 4u);
}

TEST_F(SmallChannelTest, ResultThatNobodyTookKeepsItsPlace) {
  std::vector<Pending<Buffer>> receiving;
  std::vector<Pending<Buffer>> sending;
  for (int i = 0; i < 4; ++i) receiving.push_back(right.receive(empty(8)));
  for (int i = 0; i < 4; ++i) sending.push_back(left.send(filled(8, seed)));
  for (auto& each : receiving) EXPECT_TRUE(succeeds(each.wait().result));
  EXPECT_TRUE(eventually([&] { return sending[0].ready(); }));
  EXPECT_TRUE(fails_with(left.send(filled(8, seed)).wait().result, Errc::would_block));
  EXPECT_TRUE(succeeds(sending[0].wait().result));
  EXPECT_EQ(left.free_sends(), 1u);
}

// ---- Scopes -------------------------------------------------------------------------------------

class ScopeTest : public ChannelsAndMemory {};

TEST_F(ScopeTest, ValueOfTheClosureIsTheResult) {
  auto receiving = receives(1);
  const auto outcome = left.scope([&](Scope& scope) -> Result<int> {
    const auto operation = scope.post(Send{piece(0)});
    const auto done = scope.wait(operation);
    if (!done) return std::unexpected(done.error());
    return 42;
  });
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(*outcome, 42);
}

TEST_F(ScopeTest, PlainValueAndNothingAreResultsToo) {
  EXPECT_EQ(left.scope([](Scope&) { return 7; }).value(), 7);
  EXPECT_TRUE(left.scope([](Scope&) {}).has_value());
}

TEST_F(ScopeTest, EverythingIsOverWhenTheScopeIs) {
  auto sending = right.send(filled(64, seed + 1));
  const auto outcome = left.scope([&](Scope& scope) {
    static_cast<void>(scope.post(Receive{place(0)}));  // Not waited for.
  });
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(holds(std::span{sink}.first(64), seed + 1));
  EXPECT_EQ(left.free_receives(), 127u);
}

TEST_F(ScopeTest, ThrowingClosureIsFinishedFirst) {
  auto sending = right.send(filled(64, seed + 1));
  EXPECT_THROW(static_cast<void>(left.scope([&](Scope& scope) {
                 static_cast<void>(scope.post(Receive{place(0)}));
                 throw std::runtime_error("on purpose");
               })),
               std::runtime_error);
  EXPECT_TRUE(holds(std::span{sink}.first(64), seed + 1));
}

TEST_F(ScopeTest, ErrorOfTheClosureAndFailedOperationsBothCount) {
  const auto outcome = left.scope([&](Scope& scope) -> Result<void> {
    // The peer never published this key, and refuses it.
    RemoteMemoryRegion nowhere{.address = 4096, .length = 64, .key = RemoteKey{0x7fffff01}};
    static_cast<void>(scope.post(Write{piece(0), nowhere}));
    static_cast<void>(scope.post(Send{piece(1)}));
    return std::unexpected(Error{.code = Errc::malformed, .operation = "the closure"});
  });
  ASSERT_FALSE(outcome.has_value());
  ASSERT_TRUE(outcome.error().closure);
  EXPECT_EQ(outcome.error().closure->code, Errc::malformed);
  ASSERT_EQ(outcome.error().operations.size(), 2u);
  EXPECT_EQ(outcome.error().operations[0].code, Errc::work_failed);
  EXPECT_EQ(outcome.error().operations[0].value,
            static_cast<std::uint64_t>(WorkStatus::remote_access));
  ASSERT_TRUE(left.cause());
  EXPECT_EQ(left.cause()->code, Errc::work_failed);
  EXPECT_TRUE(fails_with(left.send(piece(0)), Errc::broken));
}

TEST_F(ScopeTest, FailureThatWasWaitedForIsTheClosuresOwn) {
  const auto outcome = left.scope([&](Scope& scope) {
    RemoteMemoryRegion nowhere{.address = 4096, .length = 64, .key = RemoteKey{0x7fffff01}};
    const auto done = scope.wait(scope.post(Write{piece(0), nowhere}));
    EXPECT_TRUE(fails_with(done, Errc::work_failed));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ScopeTest, DetachedPostsRecycleTheirSlots) {
  if (is_on_reactor()) GTEST_SKIP() << "channels of one Reactor are of one thread";
  constexpr std::size_t kCount = 1000;  // Far more than the queue has places.
  std::thread receiver([&] {
    for (std::size_t i = 0; i < kCount; i += 10) {
      auto waiting = receives(10);
      for (auto& each : waiting) EXPECT_TRUE(succeeds(each.wait().result));
    }
  });
  const auto outcome = left.scope([&](Scope& scope) {
    for (std::size_t i = 0; i < kCount; ++i) scope.post_detached(Send{piece(i % 64)});
  });
  receiver.join();
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(left.free_sends(), 127u);
}

TEST_F(ScopeTest, BatchHasOneHandle) {
  auto receiving = receives(16);
  std::vector<Send<1>> works;
  for (std::size_t i = 0; i < 16; ++i) works.push_back(Send{piece(i)});
  const auto outcome = left.scope([&](Scope& scope) -> Result<void> {
    const auto done = scope.wait(scope.post(std::span<const Send<1>>{works}));
    if (!done) return std::unexpected(done.error());
    return {};
  });
  ASSERT_TRUE(outcome.has_value());
  for (std::size_t i = 0; i < 16; ++i) {
    auto [buffer, result] = receiving[i].wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_EQ(std::memcmp(buffer.bytes().data(), source.data() + i * 64, 64), 0) << i;
  }
  EXPECT_EQ(left.free_sends(), 127u);
}

TEST_F(ScopeTest, BatchThatFailsInsideTellsTheFirstFailure) {
  SharedRegion window = require(domain.allocate_shared(64, Access::remote_write));
  std::vector<Write<1>> works;
  works.push_back(Write{piece(0), window.remote()});
  works.push_back(Write{
      piece(1), RemoteMemoryRegion{.address = 4096, .length = 64, .key = RemoteKey{0x7fffff01}}});
  works.push_back(Write{piece(2), window.remote()});
  const auto outcome = left.scope([&](Scope& scope) {
    const auto done = scope.wait(scope.post(std::span<const Write<1>>{works}));
    ASSERT_TRUE(fails_with(done, Errc::work_failed));
    EXPECT_EQ(done.error().value, static_cast<std::uint64_t>(WorkStatus::remote_access));
  });
}

TEST_F(ScopeTest, BatchLongerThanTheRoomIsNotPostedAtAll) {
  std::vector<Send<1>> works(128, Send{piece(0)});
  auto receiving = receives(1);
  const auto outcome = left.scope([&](Scope& scope) {
    EXPECT_TRUE(fails_with(scope.wait(scope.post(works)), Errc::limit_exceeded));
    works.pop_back();
    const auto first = scope.post(works.front());
    EXPECT_TRUE(fails_with(scope.wait(scope.post(works)), Errc::would_block));
    EXPECT_TRUE(succeeds(scope.wait(first)));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(left.free_sends(), 127u);
}

TEST_F(ScopeTest, StaleHandleIsToldSo) {
  auto receiving = receives(1);
  std::optional<Operation> escaped;
  static_cast<void>(left.scope([&](Scope& scope) {
    escaped = scope.post(Send{piece(0)});
    EXPECT_TRUE(succeeds(scope.wait(*escaped)));
    EXPECT_TRUE(fails_with(scope.wait(*escaped), Errc::stale));
  }));
  static_cast<void>(left.scope(
      [&](Scope& scope) { EXPECT_TRUE(fails_with(scope.wait(*escaped), Errc::stale)); }));
}

TEST_F(ScopeTest, WaitAnyFindsWhatIsReadyAndWaitAllTheRest) {
  const auto outcome = left.scope([&](Scope& scope) {
    const std::array operations{scope.post(Receive{place(0)}), scope.post(Receive{place(1)})};
    EXPECT_FALSE(scope.poll(operations[0]));
    auto first = right.send(filled(64, seed + 1));
    EXPECT_EQ(require(scope.wait_any(operations)), 0u);
    auto second = right.send(filled(64, seed + 2));
    EXPECT_TRUE(succeeds(scope.wait_all(operations)));
  });
  EXPECT_TRUE(outcome.has_value());
  EXPECT_TRUE(holds(std::span{sink}.subspan(64, 64), seed + 2));
}

TEST_F(ScopeTest, NestedScopesHaveTheirOwnOperations) {
  auto sending = right.send(filled(64, seed + 1));
  auto second = right.send(filled(64, seed + 2));
  const auto outcome = left.scope([&](Scope& outer) {
    static_cast<void>(outer.post(Receive{place(0)}));
    const auto inner =
        left.scope([&](Scope& scope) { static_cast<void>(scope.post(Receive{place(1)})); });
    EXPECT_TRUE(inner.has_value());
    EXPECT_TRUE(holds(std::span{sink}.subspan(64, 64), seed + 2));
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ScopeTest, ManualScopeDemandsThatEverythingIsWaitedFor) {
  const ThrowingContracts contracts;
  auto receiving = receives(2);
  EXPECT_THROW(static_cast<void>(left.manual_scope(
                   [&](Scope& scope) { static_cast<void>(scope.post(Send{piece(0)})); })),
               ContractViolation);
  const auto outcome = left.manual_scope([&](Scope& scope) -> Result<void> {
    const auto done = scope.wait(scope.post(Send{piece(1)}));
    return done ? Result<void>{} : std::unexpected(done.error());
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(ScopeTest, BufferLocalToTheClosureIsFound) {
  const ThrowingContracts contracts;
  std::array<std::byte, 64> outside{};
  const MemoryRegion stack = require(domain.register_local(outside));
  auto sending = right.send(filled(64, seed));
  EXPECT_TRUE(left.scope([&](Scope& scope) {
                    static_cast<void>(scope.post(Receive{stack.scatter(outside)}));
                  })
                  .has_value());
  static_cast<void>(left.scope([&](Scope& scope) {
    std::array<std::byte, 64> local{};
    const MemoryRegion region = require(domain.register_local(local));
    EXPECT_THROW(static_cast<void>(scope.post(Receive{region.scatter(local)})), ContractViolation);
  }));
}

}  // namespace
}  // namespace verbatim::test
