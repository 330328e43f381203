// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each kind of owner goes into an operation and comes back, its memory is sent or filled, and
//       the result says what arrived; a receive without memory takes immediates, and nothing else.
// Method: connected channels of this process; a checked build sees that shared sends do not
//         overlap. The code under test is channel/owner.hpp.
#include "verbatim/channel/owner.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "conformance/connected_channels.hpp"

namespace verbatim::test {

/// An owner that a user defined: one value, with its registration.
struct Record {
  struct Value {
    std::uint64_t number;
    std::array<char, 24> text;
  };
  std::unique_ptr<Value> value;
  MemoryRegion region;

  static Record make(const ProtectionDomain& domain, std::uint64_t number) {
    auto value = std::make_unique<Value>(Value{.number = number, .text = {"a record"}});
    MemoryRegion region = require(domain.register_local(*value));
    return {std::move(value), std::move(region)};
  }
};

/// An owner that is too big for the place in which a dropped handle keeps its owner.
struct BigRecord {
  std::array<std::uint64_t, 16> notes{};
  Buffer buffer;
};

}  // namespace verbatim::test

template <>
struct verbatim::OwnerTraits<verbatim::test::Record> {
  static constexpr bool kStaysWhenMoved = true;
  static std::array<GatherElement, 1> gather(const test::Record& record, std::source_location) {
    return {record.region.gather(*record.value)};
  }
  static std::array<ScatterElement, 1> scatter(test::Record& record, std::source_location) {
    return {record.region.scatter(*record.value)};
  }
};

template <>
struct verbatim::OwnerTraits<verbatim::test::BigRecord> {
  static constexpr bool kStaysWhenMoved = true;
  static GatherElement gather(const test::BigRecord& record, ByteRange range,
                              std::source_location where) {
    return OwnerTraits<Buffer>::gather(record.buffer, range, where);
  }
  static ScatterElement scatter(test::BigRecord& record, ByteRange range,
                                std::source_location where) {
    return OwnerTraits<Buffer>::scatter(record.buffer, range, where);
  }
  static std::span<const std::byte> bytes(const test::BigRecord& record) {
    return record.buffer.bytes();
  }
};

namespace verbatim::test {
namespace {

static_assert(RangedOwner<Buffer> && RangedOwner<std::shared_ptr<const Buffer>>);
static_assert(WholeOwner<std::array<Buffer, 3>> && WholeOwner<NoMemory> && WholeOwner<Record>);
static_assert(!MemoryOwner<std::shared_ptr<Buffer>> && !MemoryOwner<GatherElement>);

class Owners : public ConnectedChannels {
 protected:
  [[nodiscard]] std::shared_ptr<const Buffer> shared(std::size_t bytes) {
    return std::make_shared<const Buffer>(filled(bytes, seed));
  }
};

// ---- Shared -------------------------------------------------------------------------------------

TEST_F(Owners, OneSharedValueIsOnItsWayToManyPeersAtOnce) {
  constexpr std::size_t kPeers = 4;
  std::vector<std::pair<Channel, Channel>> pairs;
  std::vector<Pending<Buffer>> receiving;
  for (std::size_t i = 0; i < kPeers; ++i) {
    pairs.push_back(require(connect_pair(domain)));
    receiving.push_back(pairs.back().second.receive(empty(1000)));
  }
  std::shared_ptr<const Buffer> value = shared(1000);
  const void* const memory = value->bytes().data();
  std::vector<Pending<std::shared_ptr<const Buffer>>> sending;
  for (auto& each : pairs) sending.push_back(each.first.send(value));
  for (auto& each : pairs) sending.push_back(each.first.send(value, {.offset = 500}));
  EXPECT_EQ(value.use_count(), 1 + 2 * static_cast<long>(kPeers));
  for (auto& each : receiving) {
    const auto done = each.wait();
    EXPECT_TRUE(succeeds(done.result));
    EXPECT_TRUE(holds(done.received(), seed));
  }
  for (auto& each : pairs) {
    const auto half = each.second.receive(empty(500)).wait();
    ASSERT_TRUE(succeeds(half.result));
    EXPECT_EQ(std::memcmp(half.received().data(), value->bytes().data() + 500, 500), 0);
  }
  value.reset();  // The operations keep it alive.
  for (auto& each : sending) {
    auto [back, result] = each.wait();
    ASSERT_TRUE(succeeds(result));
    EXPECT_EQ(back->bytes().data(), memory);
  }
}

TEST_F(Owners, SharedValueIsWrittenAndMayBePartOfAMessage) {
  SharedRegion window = require(domain.allocate_shared(64, Access::remote_write));
  const auto value = shared(64);
  ASSERT_TRUE(succeeds(left.write(value, window.remote()).wait().result));
  EXPECT_TRUE(holds(window.quiescent_bytes(), seed));
  auto receiving = right.receive(empty(128));
  ASSERT_TRUE(succeeds(left.send(std::array{value, value}).wait().result));
  const auto done = receiving.wait();
  ASSERT_TRUE(succeeds(done.result));
  EXPECT_TRUE(holds(done.received().first(64), seed));
  EXPECT_TRUE(holds(done.received().subspan(64), seed));
}

TEST_F(Owners, DroppedSendLetsGoOfTheSharedValueWhenItIsOver) {
  const auto value = shared(64);
  auto receiving = right.receive(empty(64));
  {
    const auto dropped = left.send(value);
  }
  EXPECT_TRUE(succeeds(receiving.wait().result));
  EXPECT_TRUE(succeeds(left.finish_sends()));
  EXPECT_EQ(value.use_count(), 1);
}

// ---- Of several pieces, and of the user's own ---------------------------------------------------

TEST_F(Owners, SeveralBuffersAreWrittenAndRead) {
  SharedRegion window =
      require(domain.allocate_shared(60, Access::remote_write | Access::remote_read));
  auto [sent, written] =
      left.write(std::array{filled(20, seed), filled(40, seed + 1)}, window.remote()).wait();
  ASSERT_TRUE(succeeds(written));
  EXPECT_TRUE(sent[0] && sent[1]);
  EXPECT_TRUE(holds(window.quiescent_bytes().first(20), seed));
  auto [filled, read] = left.read(std::array{empty(20), empty(40)}, window.remote()).wait();
  ASSERT_TRUE(succeeds(read));
  EXPECT_TRUE(holds(filled[0].bytes(), seed));
  EXPECT_TRUE(holds(filled[1].bytes(), seed + 1));
}

TEST_F(Owners, TypeOfTheUsersOwnGoesAndComesBack) {
  auto receiving = right.receive(Record::make(domain, 0));
  auto [sent, went] = left.send(Record::make(domain, 42), {.immediate = 7}).wait();
  ASSERT_TRUE(succeeds(went));
  EXPECT_EQ(sent.value->number, 42u);
  auto [received, result] = receiving.wait();
  ASSERT_TRUE(succeeds(result));
  EXPECT_EQ(received.value->number, 42u);
  EXPECT_EQ(result->immediate(), 7u);
}

TEST_F(Owners, BigOwnerOfADroppedReceiveLivesUntilItsMessageCame) {
  {
    const auto dropped = right.receive(BigRecord{.notes = {}, .buffer = empty(64)});
  }
  auto receiving = right.receive(BigRecord{.notes = {1}, .buffer = empty(64)});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(succeeds(left.send(filled(64, seed)).wait().result));
  const auto done = receiving.wait();
  ASSERT_TRUE(succeeds(done.result));
  EXPECT_EQ(done.buffer.notes[0], 1u);
  EXPECT_TRUE(holds(done.received(), seed));
  EXPECT_EQ(right.dropped_messages(), 1u);
}

// ---- received() ---------------------------------------------------------------------------------

TEST_F(Owners, ReceivedIsWhatArrivedFromThePostedOffsetOn) {
  auto receiving = right.receive(empty(64), {.offset = 16, .length = 32});
  ASSERT_TRUE(succeeds(left.send(filled(20, seed)).wait().result));
  Pending moved = std::move(receiving);
  const auto done = moved.wait();
  ASSERT_TRUE(succeeds(done.result));
  EXPECT_EQ(done.received().data(), done.buffer.bytes().data() + 16);
  EXPECT_EQ(done.received().size(), 20u);
  EXPECT_TRUE(holds(done.received(), seed));
}

TEST_F(Owners, ReceivedOfAReadIsWhatWasRead) {
  SharedRegion window = require(domain.allocate_shared(24, Access::remote_read));
  fill(window.quiescent_bytes(), seed);
  const auto done = left.read(empty(64), window.remote(), {.offset = 8, .length = 24}).wait();
  ASSERT_TRUE(succeeds(done.result));
  EXPECT_EQ(done.received().data(), done.buffer.bytes().data() + 8);
  EXPECT_TRUE(holds(done.received(), seed));
  EXPECT_EQ(done.received().size(), 24u);
}

TEST_F(Owners, NothingIsReceivedByASendNorBesideTheDataOfAWrite) {
  SharedRegion window = require(domain.allocate_shared(64, Access::remote_write));
  auto receiving = right.receive(empty(8));
  const auto sent = left.write(filled(64, seed), window.remote(), {}, {.immediate = 1}).wait();
  ASSERT_TRUE(succeeds(sent.result));
  EXPECT_TRUE(sent.received().empty());
  const auto done = receiving.wait();
  ASSERT_TRUE(succeeds(done.result));
  EXPECT_EQ(done.result->byte_count(), 64u);  // Elsewhere.
  EXPECT_TRUE(done.received().empty());
}

TEST_F(Owners, NothingIsReceivedByAReceiveThatFailed) {
  const auto done = right.receive(empty(64)).wait(std::chrono::milliseconds{1});
  EXPECT_TRUE(fails_with(done.result, Errc::timed_out));
  EXPECT_TRUE(done.received().empty());
}

// ---- Without memory -----------------------------------------------------------------------------

TEST_F(Owners, ReceiveWithoutMemoryTakesAnImmediate) {
  auto sending = left.send(NoMemory{}, {.immediate = 11});
  EXPECT_EQ(require(right.receive(NoMemory{}).wait().result).immediate(), 11u);
  EXPECT_TRUE(succeeds(sending.wait().result));

  SharedRegion window = require(domain.allocate_shared(64, Access::remote_write));
  auto writing = left.write(filled(64, seed), window.remote(), {}, {.immediate = 12});
  const auto noticed = right.receive(NoMemory{}).wait(std::chrono::seconds{10}).result;
  ASSERT_TRUE(succeeds(noticed));
  EXPECT_EQ(noticed->immediate(), 12u);
  EXPECT_EQ(noticed->opcode(), Opcode::receive_immediate);
  EXPECT_TRUE(holds(window.quiescent_bytes(), seed));
  EXPECT_TRUE(succeeds(writing.wait().result));

  auto receiving = right.receive(NoMemory{});
  ASSERT_TRUE(succeeds(left.run(send_immediate(13))));
  EXPECT_EQ(require(receiving.wait().result).immediate(), 13u);

  const auto outcome = right.scope([&](Scope& scope) {
    const auto operation = scope.post(Receive{});
    EXPECT_TRUE(succeeds(left.run(send_immediate(14))));
    EXPECT_EQ(require(scope.wait(operation)).immediate(), 14u);
  });
  EXPECT_TRUE(outcome.has_value());
}

TEST_F(Owners, ReceiveWithoutMemoryMayBePostedBeforeTheChannelIsConnected) {
  PreparedChannel one = require(PreparedChannel::create(domain));
  PreparedChannel two = require(PreparedChannel::create(domain));
  auto receiving = two.receive(NoMemory{});
  auto more = two.receive_each(std::vector<NoMemory>(2));
  auto [sender, receiver] = join(std::move(one), std::move(two));
  for (const std::uint32_t i : {1u, 2u, 3u}) ASSERT_TRUE(succeeds(sender.run(send_immediate(i))));
  EXPECT_EQ(require(receiving.wait().result).immediate(), 1u);
  EXPECT_EQ(require(more[0].wait().result).immediate(), 2u);
  EXPECT_EQ(require(more[1].wait().result).immediate(), 3u);
}

TEST_F(Owners, MessageWithDataFailsWhereAReceiveHasNoMemory) {
  auto receiving = right.receive(NoMemory{});
  const auto sent = left.send(filled(1, seed)).wait();
  ASSERT_TRUE(fails_with(sent.result, Errc::work_failed));
  const auto status = static_cast<WorkStatus>(sent.result.error().value);
  EXPECT_TRUE(status == WorkStatus::remote_invalid_request ||
              status == WorkStatus::remote_operation)
      << sent.result.error().field;
  const auto received = receiving.wait();
  ASSERT_TRUE(fails_with(received.result, Errc::work_failed));
  EXPECT_EQ(received.result.error().value, static_cast<std::uint64_t>(WorkStatus::local_length));
}

TEST_F(Owners, ReceiveWithoutMemoryEndsWithItsDeadline) {
  EXPECT_TRUE(fails_with(right.receive(NoMemory{}).wait(std::chrono::milliseconds{1}).result,
                         Errc::timed_out));
  EXPECT_EQ(right.cause()->code, Errc::timed_out);
}

}  // namespace
}  // namespace verbatim::test
