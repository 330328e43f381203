// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: immediates, inline data, fences, unsignaled requests and batches do what they promise.
// Method: for each option, an exchange whose outcome differs if the option is ignored.
// Covers: soft/post.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {
namespace {

constexpr std::uint32_t kImmediate = 0x12345678;

TEST(Immediate, ArrivesInHostOrderBesideTheData) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(100));
  Buffer sink = require(pair.domain.allocate(100));
  fill(source.bytes(), test_seed());
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.local.post(Send{source.gather(), {.immediate = kImmediate}}, 2);
  EXPECT_EQ(poll_ok(pair.local.sends).opcode(), Opcode::send);
  const Completion received = poll_ok(pair.remote.receives);
  EXPECT_EQ(received.immediate(), kImmediate);
  EXPECT_EQ(received.opcode(), Opcode::receive);
  EXPECT_EQ(received.byte_count(), 100u);
  EXPECT_TRUE(holds(sink.bytes(), test_seed()));
}

TEST(Immediate, AloneNeedsNoMemoryOnEitherSide) {
  ConnectedPair pair;
  pair.remote.post(Receive{}, 1);
  pair.local.post(send_immediate(kImmediate), 2);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  const Completion received = poll_ok(pair.remote.receives);
  EXPECT_EQ(received.immediate(), kImmediate);
  EXPECT_EQ(received.byte_count(), 0u);
}

TEST(Immediate, OfZeroIsNotTheSameAsNone) {
  ConnectedPair pair;
  pair.remote.post(Receive{}, 1);
  pair.remote.post(Receive{}, 2);
  pair.local.post(send_immediate(0), 3);
  pair.local.post(Send{}, 4);
  EXPECT_EQ(poll_ok(pair.remote.receives).immediate(), 0u);
  EXPECT_EQ(poll_ok(pair.remote.receives).immediate(), std::nullopt);
}

TEST(Immediate, OfAWriteConsumesAReceiveAndNotItsMemory) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(3000));
  Buffer receive = require(pair.domain.allocate(100));
  ExposedMemory target(pair.domain, 3000, Access::remote_write);
  fill(source.bytes(), test_seed());
  pair.remote.post(Receive{receive.scatter()}, 1);
  pair.local.post(Write{source.gather(), target.remote(), {.immediate = kImmediate}}, 2);
  EXPECT_EQ(poll_ok(pair.local.sends).opcode(), Opcode::write);
  const Completion received = poll_ok(pair.remote.receives);
  EXPECT_EQ(received.id(), WrId{1});
  EXPECT_EQ(received.opcode(), Opcode::receive_immediate);
  EXPECT_EQ(received.immediate(), kImmediate);
  EXPECT_EQ(received.byte_count(), 3000u);
  EXPECT_TRUE(target.holds(test_seed()));
  EXPECT_TRUE(all_equal(receive.bytes(), std::byte{0}));
}

TEST(Immediate, OfAnEmptyWriteIsASignal) {
  ConnectedPair pair;
  ExposedMemory target(pair.domain, 64, Access::remote_write);
  target.fill(test_seed());
  pair.remote.post(Receive{}, 1);
  pair.local.post(Write<0>{.to = target.remote(), .options = {.immediate = kImmediate}}, 2);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  const Completion received = poll_ok(pair.remote.receives);
  EXPECT_EQ(received.immediate(), kImmediate);
  EXPECT_EQ(received.byte_count(), 0u);
  EXPECT_TRUE(target.holds(test_seed()));
}

// The first attempt of each request meets no receive, so it is sent again, after the memory
// changed.
TEST(Inline, MemoryIsFreeWhenThePostReturns) {
  ConnectedPair pair;
  const std::uint32_t limit = pair.local.queue_pair.limits().max_inline_bytes;
  if (limit == 0) GTEST_SKIP() << "the device sends nothing inline";
  Buffer source = require(pair.domain.allocate(limit));
  Buffer sink = require(pair.domain.allocate(limit));
  ExposedMemory target(pair.domain, limit, Access::remote_write);
  fill(source.bytes(), test_seed());
  pair.local.post(Send{source.gather(), {.inlined = true}}, 2);
  pair.local.post(Write{source.gather(), target.remote(), {.immediate = 1, .inlined = true}}, 3);
  std::ranges::fill(source.bytes(), std::byte{0xff});
  EXPECT_FALSE(poll_within(pair.local.sends, std::chrono::milliseconds{20}));
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.remote.post(Receive{}, 2);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 2), 2));
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.remote.receives, 2), 1));
  EXPECT_TRUE(holds(sink.bytes(), test_seed()));
  EXPECT_TRUE(target.holds(test_seed()));
}

TEST(Inline, GathersFromManyElements) {
  ConnectedPair pair;
  const std::uint32_t limit = pair.local.queue_pair.limits().max_inline_bytes;
  if (limit == 0) GTEST_SKIP() << "the device sends nothing inline";
  ScatteredMemory source(pair.domain, limit, 4, test_seed());
  ScatteredMemory sink(pair.domain, limit, 3, test_seed() + 1);
  source.fill(test_seed());
  pair.local.post(Send{source.gather(), {.inlined = true}}, 2);
  source.fill(test_seed() + 5);
  pair.remote.post(Receive{sink.scatter()}, 1);
  EXPECT_TRUE(succeeded(poll_one(pair.local.sends)));
  EXPECT_TRUE(succeeded(poll_one(pair.remote.receives)));
  EXPECT_TRUE(sink.holds(test_seed()));
}

TEST(Inline, OneByteAboveTheLimitIsRefused) {
  ConnectedPair pair;
  const std::uint32_t limit = pair.local.queue_pair.limits().max_inline_bytes;
  Buffer source = require(pair.domain.allocate(limit + 1));
  const auto result =
      unsafe::post(pair.local.queue_pair, Send{source.gather(), {.inlined = true}}, WrId{1});
  ASSERT_TRUE(fails_with(result, Errc::limit_exceeded));
  EXPECT_EQ(result.error().value, limit + 1);
  EXPECT_EQ(result.error().limit, limit);
  exchange(pair);
}

constexpr std::size_t kFencedBytes = 64 << 10;

/// Posts a read, and behind it a request that sends what was read. A send that waits for its
/// receive holds up both, so that the device has both at once.
template <class Work>
void post_read_then(ConnectedPair& pair, const Read<1>& read, const Work& fenced) {
  pair.local.post(Send{}, 1);
  unsafe::SendBatch<2> batch(pair.local.queue_pair);
  require(batch.add(read, WrId{2}));
  require(batch.add(fenced, WrId{3}));
  ASSERT_TRUE(batch.post());
}

// Without the fence the second request may leave before the read has filled the memory it sends.
TEST(Fence, MakesAWriteWaitForTheReadBeforeIt) {
  ConnectedPair pair;
  ExposedMemory source(pair.domain, kFencedBytes, Access::remote_read);
  ExposedMemory target(pair.domain, kFencedBytes, Access::remote_write);
  Buffer between = require(pair.domain.allocate(kFencedBytes));
  source.fill(test_seed());
  post_read_then(pair, Read{between.scatter(), source.remote()},
                 Write{between.gather(), target.remote(), {.immediate = 1, .fenced = true}});
  pair.remote.post(Receive{}, 10);
  pair.remote.post(Receive{}, 11);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 3), 1));
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.remote.receives, 2), 10));
  EXPECT_TRUE(target.holds(test_seed()));
}

TEST(Fence, MakesASendWaitForTheReadBeforeIt) {
  ConnectedPair pair;
  ExposedMemory source(pair.domain, kFencedBytes, Access::remote_read);
  Buffer between = require(pair.domain.allocate(kFencedBytes));
  Buffer sink = require(pair.domain.allocate(kFencedBytes));
  source.fill(test_seed());
  post_read_then(pair, Read{between.scatter(), source.remote()},
                 Send{between.gather(), {.fenced = true}});
  pair.remote.post(Receive{}, 10);
  pair.remote.post(Receive{sink.scatter()}, 11);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 3), 1));
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.remote.receives, 2), 10));
  EXPECT_TRUE(holds(sink.bytes(), test_seed()));
}

TEST(Unsignaled, RequestsCompleteWithTheSignaledOneAfterThem) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(8 * 64));
  Buffer sink = require(pair.domain.allocate(8 * 64));
  fill(source.bytes(), test_seed());
  for (std::uint64_t run = 0; run < 6; ++run) {
    for (std::uint64_t i = 0; i < 8; ++i) pair.remote.post(Receive{sink.scatter(i * 64, 64)}, i);
    for (std::uint64_t i = 0; i < 7; ++i)
      pair.local.post_unsignaled(Send{source.gather(i * 64, 64)}, 10 * run + i);
    pair.local.post(Send{source.gather(7 * 64, 64)}, 10 * run + 7);
    // One completion for eight requests. The next run would find any extra completion.
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, 10 * run + 7));
    ASSERT_TRUE(succeeded_in_order(poll_many(pair.remote.receives, 8), 0));
    ASSERT_TRUE(holds(sink.bytes(), test_seed()));
    std::ranges::fill(sink.bytes(), std::byte{0});
  }
}

TEST(Unsignaled, RequestThatFailsCompletesAllTheSame) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(64));
  ExposedMemory target(pair.domain, 64, Access::remote_read);
  pair.local.post_unsignaled(Write{source.gather(), target.remote()}, 5);
  const Completion failed = poll_one(pair.local.sends);
  EXPECT_EQ(failed.status(), WorkStatus::remote_access);
  EXPECT_EQ(failed.id(), WrId{5});
}

TEST(Batch, OfAllOperationsCompletesInOrder) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(400));
  Buffer sink = require(pair.domain.allocate(400));
  ExposedMemory exposed(pair.domain, 400, Access::remote_read | Access::remote_write);
  fill(source.bytes(), test_seed());
  unsafe::ReceiveBatch<4> receives;
  for (std::uint64_t i = 0; i < 2; ++i)
    require(receives.add(Receive{sink.scatter(i * 100, 100)}, WrId{20 + i}));
  ASSERT_TRUE(receives.post(pair.remote.queue_pair));
  unsafe::SendBatch<8> sends(pair.local.queue_pair);
  require(sends.add(Send{source.gather(0, 100)}, WrId{1}));
  require(sends.add(Write{source.gather(200, 200), exposed.remote().sub_region(0, 200).value()},
                    WrId{2}));
  require(sends.add(Read{sink.scatter(200, 200), exposed.remote().sub_region(0, 200).value()},
                    WrId{3}));
  require(sends.add(Send{std::array{source.gather(100, 50), source.gather(150, 50)}}, WrId{4}));
  const unsafe::Posted posted = sends.post();
  ASSERT_TRUE(posted) << to_string(*posted.error);
  EXPECT_EQ(posted.accepted, 4u);
  EXPECT_EQ(sends.size(), 0u);
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.local.sends, 4), 1));
  EXPECT_TRUE(succeeded_in_order(poll_many(pair.remote.receives, 2), 20));
  EXPECT_TRUE(holds(sink.bytes(), test_seed()));
}

TEST(Batch, ThatIsFullRefusesOneMore) {
  ConnectedPair pair;
  unsafe::SendBatch<2, 1> sends(pair.local.queue_pair);
  require(sends.add(Send{}, WrId{1}));
  require(sends.add(Send{}, WrId{2}));
  EXPECT_TRUE(fails_with(sends.add(Send{}, WrId{3}), Errc::limit_exceeded));
}

TEST(Batch, OfNothingPostsNothing) {
  ConnectedPair pair;
  unsafe::SendBatch<2> sends(pair.local.queue_pair);
  const unsafe::Posted posted = sends.post();
  EXPECT_TRUE(posted);
  EXPECT_EQ(posted.accepted, 0u);
}

// The peer posts no receive, so the send queue stays full.
TEST(Batch, LongerThanTheRoomIsTakenInPart) {
  ConnectedPair pair;
  const std::uint32_t depth = pair.local.queue_pair.limits().max_send_requests;
  const std::uint64_t before = depth - 3;
  for (std::uint64_t i = 0; i < before; ++i) pair.local.post(Send{}, i);
  constexpr std::size_t kBatch = 200;
  unsafe::SendBatch<kBatch, 1> batch(pair.local.queue_pair);
  for (std::uint64_t i = 0; i < kBatch; ++i) require(batch.add(Send{}, WrId{before + i}));
  const unsafe::Posted posted = batch.post();
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error->code, Errc::would_block);
  EXPECT_GE(posted.accepted, 3u);
  ASSERT_LT(posted.accepted, kBatch);

  // The requests that were taken complete, in order, and no others do.
  const std::uint64_t all = before + posted.accepted;
  for (std::uint64_t i = 0; i < all; ++i) {
    pair.remote.post(Receive{}, i);
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, i));
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.remote.receives)}, i));
  }
  pair.remote.post(Receive{}, 7);
  pair.local.post(Send{}, 7777);
  EXPECT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, 7777));
}

TEST(Batch, OfReceivesLongerThanTheRoomIsTakenInPart) {
  ConnectedPair pair;
  const std::uint32_t depth = pair.remote.queue_pair.limits().max_receive_requests;
  constexpr std::size_t kBatch = 200;
  ASSERT_LT(depth, kBatch);
  unsafe::ReceiveBatch<kBatch, 1> batch;
  for (std::uint64_t i = 0; i < kBatch; ++i) require(batch.add(Receive{}, WrId{i}));
  const unsafe::Posted posted = batch.post(pair.remote.queue_pair);
  ASSERT_FALSE(posted);
  EXPECT_EQ(posted.error->code, Errc::would_block);
  EXPECT_GE(posted.accepted, depth);
  for (std::uint64_t i = 0; i < posted.accepted; ++i) {
    pair.local.post(Send{}, i);
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.remote.receives)}, i));
    ASSERT_TRUE(succeeded_in_order({poll_one(pair.local.sends)}, i));
  }
}

}  // namespace
}  // namespace verbatim::test
