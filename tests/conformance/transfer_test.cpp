// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: send, write and read move every byte, at every length, from and into any number of pieces
//       of memory, and touch nothing else.
// Method: random data between guard bytes, checked byte by byte, in both directions.
// Covers: soft/execute.cpp, soft/rdma.cpp, soft/send.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "support/connected_pair.hpp"
#include "support/pattern.hpp"
#include "support/test_memory.hpp"

namespace verbatim::test {
namespace {

enum class Operation { send, write, read };
void PrintTo(Operation operation, std::ostream* out) {
  *out << (operation == Operation::send    ? "Send"
           : operation == Operation::write ? "Write"
                                           : "Read");
}

/// Relative to the MTU if that matters, so that every device runs the same list of tests.
struct Length {
  const char* name;
  std::int64_t bytes;
  bool plus_mtu = false;
};
void PrintTo(const Length& length, std::ostream* out) { *out << length.name; }

std::size_t length_of(const Length& length, const ConnectedPair& pair) {
  const auto mtu = std::int64_t{byte_count(pair.local.queue_pair.agreement().mtu)};
  return static_cast<std::size_t>(length.bytes + (length.plus_mtu ? mtu : 0));
}

struct Job {
  std::size_t bytes;
  std::size_t pieces;
  std::uint64_t seed;
};

void transfer_by_send(ConnectedPair& pair, Side& from, Side& to, const Job& job) {
  ScatteredMemory source(pair.domain, job.bytes, job.pieces, job.seed);
  ScatteredMemory sink(pair.domain, job.bytes, job.pieces, job.seed + 1);
  source.fill(job.seed);
  to.post(Receive{sink.scatter()}, 1);
  from.post(Send{source.gather()}, 2);
  const Completion sent = poll_ok(from.sends);
  EXPECT_EQ(sent.id(), WrId{2});
  EXPECT_EQ(sent.opcode(), Opcode::send);
  EXPECT_EQ(sent.queue_pair(), from.queue_pair.number());
  const Completion received = poll_ok(to.receives);
  EXPECT_EQ(received.id(), WrId{1});
  EXPECT_EQ(received.opcode(), Opcode::receive);
  EXPECT_EQ(received.byte_count(), job.bytes);
  EXPECT_EQ(received.immediate(), std::nullopt);
  EXPECT_EQ(received.queue_pair(), to.queue_pair.number());
  EXPECT_TRUE(sink.holds(job.seed));
  EXPECT_TRUE(source.holds(job.seed)) << "the source changed";
}

void transfer_by_write(ConnectedPair& pair, Side& from, Side& to, const Job& job) {
  ScatteredMemory source(pair.domain, job.bytes, job.pieces, job.seed);
  ExposedMemory sink(pair.domain, job.bytes, Access::remote_write);
  source.fill(job.seed);
  from.post(Write{source.gather(), sink.remote()}, 1);
  const Completion written = poll_ok(from.sends);
  EXPECT_EQ(written.id(), WrId{1});
  EXPECT_EQ(written.opcode(), Opcode::write);
  // The peer's processor is sure to see the data only after a later message.
  to.post(Receive{}, 2);
  from.post(send_immediate(0), 3);
  poll_ok(from.sends);
  poll_ok(to.receives);
  EXPECT_TRUE(sink.holds(job.seed));
  EXPECT_TRUE(source.holds(job.seed)) << "the source changed";
}

void transfer_by_read(ConnectedPair& pair, Side& reader, const Job& job) {
  ExposedMemory source(pair.domain, job.bytes, Access::remote_read);
  ScatteredMemory sink(pair.domain, job.bytes, job.pieces, job.seed);
  source.fill(job.seed);
  reader.post(Read{sink.scatter(), source.remote()}, 1);
  const Completion read = poll_ok(reader.sends);
  EXPECT_EQ(read.id(), WrId{1});
  EXPECT_EQ(read.opcode(), Opcode::read);
  EXPECT_EQ(read.byte_count(), job.bytes);
  EXPECT_TRUE(sink.holds(job.seed));
  EXPECT_TRUE(source.holds(job.seed)) << "the source changed";
}

void transfer(Operation operation, ConnectedPair& pair, Side& from, Side& to, const Job& job) {
  switch (operation) {
    case Operation::send: return transfer_by_send(pair, from, to, job);
    case Operation::write: return transfer_by_write(pair, from, to, job);
    case Operation::read: return transfer_by_read(pair, to, job);
  }
}

using TransferCase = std::tuple<Operation, Length, std::size_t>;

std::string case_name(const testing::TestParamInfo<TransferCase>& test) {
  const auto& [operation, length, pieces] = test.param;
  return testing::PrintToString(operation) + length.name + "In" + std::to_string(pieces);
}

std::string operation_name(const testing::TestParamInfo<Operation>& test) {
  return testing::PrintToString(test.param);
}

class Transfer : public testing::TestWithParam<TransferCase> {};

TEST_P(Transfer, MovesEveryByteBothWays) {
  const auto& [operation, length, pieces] = GetParam();
  if (pieces > capabilities().max_elements)
    GTEST_SKIP() << "the device takes " << capabilities().max_elements << " elements per request";
  ConnectedPair pair;
  const std::size_t bytes = length_of(length, pair);
  transfer(operation, pair, pair.local, pair.remote, {bytes, pieces, test_seed()});
  transfer(operation, pair, pair.remote, pair.local, {bytes, pieces, test_seed() + 9});
}

INSTANTIATE_TEST_SUITE_P(
    All, Transfer,
    testing::Combine(testing::Values(Operation::send, Operation::write, Operation::read),
                     testing::Values(Length{"0B", 0}, Length{"1B", 1},
                                     Length{"MtuLess1B", -1, true}, Length{"Mtu", 0, true},
                                     Length{"MtuPlus1B", 1, true}, Length{"64KiB", 64 << 10},
                                     Length{"1MiB", 1 << 20}),
                     testing::Values(1, 2, 3, 4)),
    case_name);

class LongestTransfer : public testing::TestWithParam<Operation> {};

TEST_P(LongestTransfer, MovesEveryByte) {
  ConnectedPair pair;
  const std::size_t bytes =
      std::min<std::size_t>(pair.local.queue_pair.limits().max_message_bytes, 8 << 20);
  transfer(GetParam(), pair, pair.local, pair.remote, {bytes, 2, test_seed()});
}

TEST_P(LongestTransfer, PlusOneByteIsRefusedWithTheLimit) {
  const std::uint32_t most = std::min(capabilities().max_elements, 16u);
  ConnectedPair pair{
      {.both = [most](QueuePairOptions& options) { options.max_send_elements = most; }}};
  const std::uint64_t limit = pair.local.queue_pair.limits().max_message_bytes;
  // Elements may overlap, so a fraction of the memory is enough for one byte more than the maximum.
  const std::uint64_t share = limit / most + 1;
  Buffer buffer = require(pair.domain.allocate(share));
  std::vector<GatherElement> from;
  std::vector<ScatterElement> into;
  std::uint64_t left = limit + 1;
  for (std::uint32_t i = 0; i < most && left > 0; ++i) {
    const std::uint64_t part = std::min(share, left);
    from.push_back(buffer.gather(0, part));
    into.push_back(buffer.scatter(0, part));
    left -= part;
  }
  ASSERT_EQ(left, 0u);
  const RemoteMemoryRegion anywhere{.address = 0, .length = ~std::uint64_t{0}, .key = {}};
  auto& queue_pair = pair.local.queue_pair;
  const std::span<const GatherElement> sources = from;
  const std::span<const ScatterElement> sinks = into;
  const auto result =
      GetParam() == Operation::send    ? unsafe::post(queue_pair, Send{sources}, WrId{1})
      : GetParam() == Operation::write ? unsafe::post(queue_pair, Write{sources, anywhere}, WrId{1})
                                       : unsafe::post(queue_pair, Read{sinks, anywhere}, WrId{1});
  ASSERT_TRUE(fails_with(result, Errc::limit_exceeded));
  EXPECT_EQ(result.error().value, limit + 1);
  EXPECT_EQ(result.error().limit, limit);
  exchange(pair);  // Nothing was posted, nothing is broken.
}

INSTANTIATE_TEST_SUITE_P(All, LongestTransfer,
                         testing::Values(Operation::send, Operation::write, Operation::read),
                         operation_name);

TEST(Messages, FromMoreElementsThanTheQueuePairTakesAreRefused) {
  ConnectedPair pair;
  const QueuePairLimits& limits = pair.local.queue_pair.limits();
  Buffer buffer = require(pair.domain.allocate(64));
  const std::vector<GatherElement> from(limits.max_send_elements + 1, buffer.gather(0, 1));
  const std::span<const GatherElement> sources = from;
  const auto sent = unsafe::post(pair.local.queue_pair, Send{sources}, WrId{1});
  ASSERT_TRUE(fails_with(sent, Errc::limit_exceeded));
  EXPECT_EQ(sent.error().value, limits.max_send_elements + 1);
  EXPECT_EQ(sent.error().limit, limits.max_send_elements);

  std::vector<ScatterElement> into;
  for (std::uint32_t i = 0; i <= limits.max_receive_elements; ++i)
    into.push_back(buffer.scatter(i % 64, 1));
  const std::span<const ScatterElement> sinks = into;
  EXPECT_TRUE(fails_with(unsafe::post(pair.local.queue_pair, Receive{sinks}, WrId{1}),
                         Errc::limit_exceeded));
  exchange(pair);
}

TEST(Messages, ShorterThanTheReceiveLeaveItsRestAlone) {
  ConnectedPair pair;
  Buffer source = require(pair.domain.allocate(100));
  Buffer sink = require(pair.domain.allocate(1000));
  fill(source.bytes(), test_seed());
  std::ranges::fill(sink.bytes(), std::byte{7});
  pair.remote.post(Receive{sink.scatter()}, 1);
  pair.local.post(Send{source.gather()}, 2);
  EXPECT_EQ(poll_ok(pair.remote.receives).byte_count(), 100u);
  EXPECT_TRUE(holds(sink.bytes().first(100), test_seed()));
  EXPECT_TRUE(all_equal(sink.bytes().subspan(100), std::byte{7}));
}

TEST(Messages, KeepTheirOrder) {
  ConnectedPair pair;
  constexpr std::uint64_t kMessages = 400;
  constexpr std::uint64_t kWindow = 16;
  Buffer memory = require(pair.domain.allocate(2 * kWindow * sizeof(std::uint64_t)));
  const auto word = [&](std::uint64_t slot) {
    return memory.bytes().subspan(slot * sizeof(std::uint64_t), sizeof(std::uint64_t));
  };
  const auto receive = [&](std::uint64_t n) {
    pair.remote.post(Receive{memory.region().scatter(word(kWindow + n % kWindow))}, n);
  };
  for (std::uint64_t n = 0; n < kWindow; ++n) receive(n);
  std::uint64_t sent = 0;
  for (std::uint64_t n = 0; n < kMessages; ++n) {
    for (; sent < kMessages && sent < n + kWindow; ++sent) {
      fill(word(sent % kWindow), test_seed() + sent);
      pair.local.post(Send{memory.region().gather(word(sent % kWindow))}, sent);
    }
    ASSERT_EQ(poll_ok(pair.local.sends).id(), WrId{n});
    ASSERT_EQ(poll_ok(pair.remote.receives).id(), WrId{n});
    ASSERT_TRUE(holds(word(kWindow + n % kWindow), test_seed() + n)) << "message " << n;
    receive(n + kWindow);
  }
}

TEST(Messages, WorkAcrossTheEndOfTheSequenceNumbers) {
  ConnectedPair pair{{.both = [](QueuePairOptions& options) {
    options.psn = require(PacketSequenceNumber::from_value(0xfffffd));
  }}};
  exchange(pair, 64 << 10);
  exchange(pair, 1);
}

TEST(Messages, WorkAtTheSmallestPacketSize) {
  ConnectedPair pair{
      {.remote = [](QueuePairOptions& options) { options.mtu = MaximumTransferUnit::bytes_256; }}};
  EXPECT_EQ(pair.local.queue_pair.agreement().mtu, MaximumTransferUnit::bytes_256);
  EXPECT_EQ(pair.remote.queue_pair.agreement().mtu, MaximumTransferUnit::bytes_256);
  exchange(pair, 10'000);
}

}  // namespace
}  // namespace verbatim::test
